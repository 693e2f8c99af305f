"""Validators of configurations; each says what was received and what was expected."""

from __future__ import annotations

import numbers
from typing import Any

import attrs

from ._errors import ConfigError

__all__ = ["as_int", "at_least", "instance_of", "list_of", "positive_number", "whole_number"]

_Validator = Any  # attrs publishes no type that mypy accepts for the validators of all fields alike


def as_int(value: Any) -> Any:
    """Converts NumPy's whole numbers, which JSON cannot express; leaves the rest to `whole_number`."""
    return int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value


def at_least(owner: str, name: str, value: Any, minimum: int = 1) -> int:
    """Returns `value` if it is a whole number of at least `minimum`.

    Raises:
        ConfigError: it is not; the message names the argument `name` of `owner`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigError(f"{owner}({name}={value!r}): expected a whole number of at least {minimum}.")
    return value


def whole_number(minimum: int) -> _Validator:
    """Makes a validator of an `int` of at least `minimum`."""

    def check(config: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        at_least(type(config).__name__, attribute.name, value, minimum)

    return check


def positive_number() -> _Validator:
    """Makes a validator of a number above 0."""

    def check(config: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise ConfigError(
                f"{type(config).__name__}({attribute.name}={value!r}): expected a number above 0."
            )

    return check


def instance_of(kind: type | tuple[type, ...], hint: str) -> _Validator:
    """Makes a validator of types; `hint` says in words what is expected."""

    def check(config: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind):
            raise ConfigError(
                f"{type(config).__name__}({attribute.name}=...) received {value!r} of type "
                f"{type(value).__name__}; expected {hint}."
            )

    return check


def list_of(kind: type) -> _Validator:
    """Makes a validator of a list or tuple of objects of one type."""

    def check(config: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, kind) for item in value):
            raise ConfigError(
                f"{type(config).__name__}({attribute.name}=...) received {value!r}; expected a list of "
                f"{kind.__name__} objects."
            )

    return check
