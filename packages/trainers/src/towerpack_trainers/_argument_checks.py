"""Argument checks, attrs validators and plain functions; and old names, which work with a warning.

`docs/stability.md` has the releases that may remove old names.
"""

from __future__ import annotations

import difflib
import functools
import numbers
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import tensorflow.compat.v1 as tf
from attrs import validators

from ._errors import ConfigError, FrozenConfigError, UnknownArgumentError

__all__ = [
    "as_int",
    "at_least",
    "check_allowed",
    "check_function",
    "check_number",
    "check_optimizer",
    "compile_regex",
    "explain_misuse",
    "instance_of",
    "list_of",
    "make_optimizer",
    "matcher",
    "one_of",
    "positive_number",
    "renamed_arguments",
    "renamed_exports",
    "renamed_fields",
    "renamed_method",
    "whole_number",
]


_Validator = Any  # attrs publishes no type that mypy accepts for the validators of all fields alike

_REPLACEMENTS = {
    "AdamW": "towerpack_trainers.AdamW",
    "Ftrl": "tf.train.FtrlOptimizer",
    "Lamb": "towerpack_trainers.LAMB",
    "LossScaleOptimizer": "towerpack_trainers.DynamicLossScaleOptimizer",
    "SGD": "tf.train.MomentumOptimizer",
    **{name: f"tf.train.{name}Optimizer" for name in ("Adadelta", "Adagrad", "Adam")},
    "RMSprop": "tf.train.RMSPropOptimizer",
}
"""Keras optimizers by name, with their graph-mode replacements."""

_Config = TypeVar("_Config")

# ---- attrs classes, their validators and converters


def explain_misuse(kind: type[_Config]) -> type[_Config]:
    """Adds helpful errors to a frozen attrs class, for unknown or unnamed arguments and for assignments."""
    name, arguments = kind.__name__, [field.name for field in attrs.fields(kind)]  # type: ignore[arg-type]
    has = f"It has: {', '.join(arguments)}."
    make: Callable[..., None] = kind.__init__

    @functools.wraps(make)
    def make_of_known(config: _Config, *unnamed: Any, **named: Any) -> None:
        if unnamed:
            raise UnknownArgumentError(
                f"{name} received {unnamed[0]!r} without a name; write {name}(name=value). {has}"
            )
        for argument in named:
            if argument not in arguments:
                alike = difflib.get_close_matches(argument, arguments, n=1)
                meant = f" Is {alike[0]}= meant?" if alike else ""
                raise UnknownArgumentError(f"{name} has no argument {argument!r}.{meant} {has}")
        make(config, **named)

    def refuse(config: _Config, attribute: str, value: Any) -> None:
        if attribute not in arguments:
            raise FrozenConfigError(f"{name} has no argument {attribute!r}, and it cannot be assigned. {has}")
        raise FrozenConfigError(
            f"{name}.{attribute} was assigned, but a {name} is immutable. Pass the value to the constructor: "
            f"{name}(..., {attribute}=...). Or make a changed copy: "
            f"config = attrs.evolve(config, {attribute}=...)."
        )

    kind.__init__ = make_of_known  # type: ignore[method-assign,assignment]
    kind.__setattr__ = refuse  # type: ignore[method-assign,assignment]
    return kind


def as_int(value: Any) -> Any:
    """Converts NumPy integers, which JSON cannot express, to `int`; leaves other values to `whole_number`."""
    return int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value


def whole_number(minimum: int) -> _Validator:
    """Makes a validator of an `int` of at least `minimum`."""
    return _with_message(
        validators.and_(_number_of(int), validators.ge(minimum)),
        lambda owner, name, value: _wrong_number(owner, name, value, _whole(minimum)),
    )


def positive_number() -> _Validator:
    """Makes a validator of a number above 0."""
    return _with_message(
        validators.and_(_number_of((int, float)), validators.gt(0)),
        lambda owner, name, value: _wrong_number(owner, name, value, "a number above 0"),
    )


def instance_of(kind: type | tuple[type, ...], hint: str) -> _Validator:
    """Makes a validator of types; `hint` describes the expected value."""
    return _with_message(
        validators.instance_of(kind),
        lambda owner, name, value: (
            f"{owner}({name}=...) received {value!r} of type {type(value).__name__}; expected {hint}."
            + _remedy(value, kind)
        ),
    )


def _remedy(value: Any, kind: type | tuple[type, ...]) -> str:
    """Returns advice for a value that is close to the expected one, or an empty string."""
    if isinstance(value, type) and issubclass(value, kind):
        return f" It is a class: write {value.__name__}()."
    if hasattr(value, "trainable_variables") and hasattr(value, "call"):
        return " A Keras model trains by KerasModel, or by use_keras inside a ModelDesc."
    return ""


def one_of(*choices: str) -> _Validator:
    """Makes a validator that accepts one of the given strings."""
    expected = " or ".join(f'"{choice}"' for choice in choices)
    return _with_message(
        validators.in_(choices), lambda owner, name, value: f"{owner}({name}={value!r}): expected {expected}."
    )


def list_of(kind: type) -> _Validator:
    """Makes a validator of a list or tuple of objects of one type."""
    return _with_message(
        validators.deep_iterable(validators.instance_of(kind), validators.instance_of((list, tuple))),
        lambda owner, name, value: (
            f"{owner}({name}=...) received {value!r}; expected a list of {kind.__name__} objects."
        ),
    )


def _with_message(validator: _Validator, message: Callable[[str, str, Any], str]) -> _Validator:
    """Wraps an attrs validator so that it raises a `ConfigError` with the given message."""

    def check(config: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        try:
            validator(config, attribute, value)
        except (TypeError, ValueError):
            raise ConfigError(message(type(config).__name__, attribute.name, value)) from None

    return check


def _number_of(kind: type | tuple[type, ...]) -> _Validator:
    return validators.and_(validators.instance_of(kind), validators.not_(validators.instance_of(bool)))


# ---- numbers, functions, regular expressions


def at_least(owner: str, name: str, value: Any, minimum: int = 1) -> int:
    """Returns `value` if it is a whole number of at least `minimum`.

    Raises:
        ConfigError: `value` is not such a number; the message names `owner` and its argument `name`.
    """
    value = as_int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigError(_wrong_number(owner, name, value, _whole(minimum)))
    return value


def check_number(owner: str, name: str, value: Any, least: float = 0.0, above: bool = False) -> Any:
    """Returns `value` if it is a tensor, a variable, a function that makes one, or a number in range.

    Args:
        owner: the class that has the argument.
        name: the argument's name.
        value: the argument's value.
        least: the least number allowed.
        above: whether the number must exceed `least`.

    Raises:
        ValueError: the number is out of range.
        TypeError: the value is of another type.
    """
    if tf.is_tensor(value) or isinstance(value, tf.Variable) or callable(value):
        return value
    wanted = f"a number {'above' if above else 'of at least'} {least:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(_wrong_number(owner, name, value, wanted))
    if not (value > least if above else value >= least) or value == float("inf"):
        raise ValueError(_wrong_number(owner, name, value, wanted))
    return value


def check_allowed(name: str, allow: Any, kinds: Sequence[str]) -> frozenset[str]:
    """Returns a list of allowed differences as a set.

    Args:
        name: the argument's name.
        allow: the given list.
        kinds: the valid elements.

    Raises:
        ConfigError: `allow` is not a list of such kinds.
    """
    if isinstance(allow, str) or not isinstance(allow, Collection) or not set(allow) <= set(kinds):
        raise ConfigError(f"{name}={allow!r}: expected a list of some of {', '.join(map(repr, kinds))}.")
    return frozenset(allow)


def check_function(owner: str, function: Any) -> Callable[..., Any]:
    """Returns `function` if it is callable.

    Raises:
        TypeError: `function` is not callable.
    """
    if not callable(function):
        raise TypeError(f"{owner} takes a function, received {function!r} of type {type(function).__name__}.")
    return function  # type: ignore[no-any-return]  # callable() narrows Any to something mypy calls Any


def compile_regex(owner: str, regex: Any) -> re.Pattern[str]:
    """Compiles a regular expression.

    Raises:
        TypeError: `regex` is not a string.
        ValueError: the string is not a regular expression.
    """
    if not isinstance(regex, str):
        raise TypeError(
            f"{owner} takes a regular expression, received {regex!r} of type {type(regex).__name__}."
        )
    try:
        return re.compile(regex)
    except re.error as error:
        raise ValueError(f"{owner}: {regex!r} is not a regular expression: {error}.") from error


def matcher(owner: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    """Makes a function that tests whether any of several regular expressions matches somewhere in a name.

    Raises:
        TypeError: `patterns` is not a list of strings.
        ValueError: one of the strings is not a regular expression.
    """
    if not isinstance(patterns, (list, tuple)):
        raise TypeError(f'{owner}(exclude={patterns!r}): expected a list such as ["/b$", "^bn"].')
    compiled = [compile_regex(f"{owner}(exclude=...)", pattern) for pattern in patterns]
    return lambda name: any(pattern.search(name) for pattern in compiled)


def _wrong_number(owner: str, name: str, value: Any, wanted: str) -> str:
    return f"{owner}({name}={value!r}): expected {wanted}."


def _whole(minimum: int) -> str:
    return f"a whole number of at least {minimum}"


# ---- optimizers


def make_optimizer(optimizer: Any, error: type[Exception] = TypeError) -> tf.train.Optimizer:
    """Returns an optimizer: the given one, or the result of the given function.

    Args:
        optimizer: a `tf.train.Optimizer`, or a function without arguments; called in the current graph.
        error: the exception type for any other value.

    Raises:
        TypeError: the result is not an optimizer of `tf.compat.v1.train`; for a Keras optimizer, the message
            names its replacement.
    """
    is_function = callable(optimizer) and not isinstance(optimizer, tf.train.Optimizer)
    made = optimizer() if is_function else optimizer
    if not isinstance(made, tf.train.Optimizer):
        raise error(
            f"optimizer={made!r} of type {type(made).__name__}: expected a tf.train.Optimizer, such as "
            "tf.train.AdamOptimizer(1e-3) (tf is tensorflow.compat.v1), or a function that makes one."
            f"{_advice(made)}"
        )
    return made


def check_optimizer(owner: str, optimizer: Any) -> Any:
    """Returns `optimizer` if it is one of `tf.compat.v1.train`.

    Raises:
        TypeError: `optimizer` is another object; for a Keras optimizer, the message names its replacement.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    raise TypeError(
        f"{owner} wraps a tf.train.Optimizer (tf is tensorflow.compat.v1), received {optimizer!r} of type "
        f"{type(optimizer).__name__}.{_advice(optimizer)}"
    )


def _advice(optimizer: Any) -> str:
    kind = type(optimizer)
    if not any(base.__module__.startswith(("keras.", "tf_keras.")) for base in kind.__mro__):
        return ""
    instead = _REPLACEMENTS.get(kind.__name__, "an optimizer of tf.compat.v1.train")
    return f" Keras optimizers do not train a graph of this kind; use {instead} instead."


_Class = TypeVar("_Class", bound=type[Any])
_Function = TypeVar("_Function", bound=Callable[..., Any])


def renamed_arguments(**new_names: str) -> Callable[[_Function], _Function]:
    """Lets a function accept keyword arguments by their old names.

    Args:
        new_names: the new name of each old one.

    Example:
        >>> @renamed_arguments(draw="rng_key")
        ... def sample(rng_key):
        ...     return rng_key
        >>> with warnings.catch_warnings(action="ignore"):
        ...     sample(draw=3)
        3
    """

    def decorate(function: _Function) -> _Function:
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in new_names.keys() & kwargs.keys():
                new = new_names[old]
                if new in kwargs:
                    raise TypeError(
                        f"{name}: received {old}= and {new}=, two names of one argument. Pass {new}= only."
                    )
                _warn(f"{name}: {old}= is deprecated; write {new}=")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def renamed_fields(**new_names: str) -> Callable[[_Class], _Class]:
    """Lets a class accept arguments by their old names, and have attributes of these names.

    Args:
        new_names: the new name of each old one.
    """

    def decorate(kind: _Class) -> _Class:
        kind.__init__ = renamed_arguments(**new_names)(kind.__init__)
        for old, new in new_names.items():
            setattr(
                kind,
                old,
                property(functools.partial(_read, old=old, new=new), doc=f"The old name of `{new}`."),
            )
        return kind

    return decorate


def renamed_method(old: str, new: str) -> Callable[..., Any]:
    """Returns a method that calls another one, for the old name of a class's method."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _warn(f"{type(self).__name__}.{old}() is deprecated; call {new}()")
        return getattr(self, new)(*args, **kwargs)

    call.__doc__ = f"Calls `{new}`; deprecated."
    return call


def renamed_exports(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` for the old names of its exports.

    Args:
        module: the name of the module.
        new_names: the new name of each old one.
    """

    def look_up(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} is deprecated; use {new_names[name]}")
        return getattr(sys.modules[module], new_names[name])

    return look_up


def _read(instance: Any, old: str, new: str) -> Any:
    _warn(f"{type(instance).__name__}.{old} is deprecated; read {new}")
    return getattr(instance, new)


def _warn(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=3)
