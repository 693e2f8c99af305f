"""The parts of a value that are pickled or copied with it, each with its path as text."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ...flow._flow import DataFlow

__all__ = ["described", "named_parts"]

_MOST = 1000  # members of a container


def named_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of `value`, each with its path as text."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_MOST])
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", part) for number, part in enumerate(value[:_MOST]))
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{number}]", part) for number, part in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", part) for name, part in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield "", value.__func__
    elif isinstance(value, DataFlow):
        yield from _of_flow(value)
    else:
        yield from _of_object(value)


def described(value: Any) -> str:
    """Returns a short text for a value."""
    if isinstance(value, DataFlow):
        return value._name()
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    name = function.__qualname__
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f" > variable {variable!r} of {name}", cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for variable in _names_in(function.__code__):
        if variable in function.__globals__:
            yield f" > global {variable!r} of {name}", function.__globals__[variable]
    defaults: list[tuple[Any, Any]] = list(enumerate(function.__defaults__ or ()))
    for parameter, part in [*defaults, *(function.__kwdefaults__ or {}).items()]:
        yield f" > default {parameter!r} of {name}", part
    yield from ((f".{attribute}", part) for attribute, part in vars(function).items())


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Yields the names that a function uses, including nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _of_flow(flow: DataFlow) -> Iterator[tuple[str, Any]]:
    for name, part in flow.__getstate__().items():
        yield (f" > {part._name()}" if isinstance(part, DataFlow) else f".{name}"), part


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):  # a method written in C
        yield ".__self__", owner
    yield from ((f".{name}", part) for name, part in list(getattr(value, "__dict__", {}).items()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
