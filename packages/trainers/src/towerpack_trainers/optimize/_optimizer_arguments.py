"""What optimizers and gradient processors are given, checked; each error says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["check_function", "check_number", "check_optimizer", "compile_regex", "matcher"]

_INSTEAD = {
    "AdamW": "towerpack_trainers.AdamW",
    "Ftrl": "tf.train.FtrlOptimizer",
    "Lamb": "towerpack_trainers.LAMB",
    "LossScaleOptimizer": "towerpack_trainers.DynamicLossScaleOptimizer",
    "SGD": "tf.train.MomentumOptimizer",
    **{name: f"tf.train.{name}Optimizer" for name in ("Adadelta", "Adagrad", "Adam", "RMSprop")},
    "RMSprop": "tf.train.RMSPropOptimizer",
}


def check_optimizer(owner: str, optimizer: Any) -> Any:
    """Returns `optimizer` if it is one of `tf.compat.v1.train`.

    Raises:
        TypeError: it is not; for a Keras optimizer the message names its replacement.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    kind = type(optimizer)
    message = (
        f"{owner} wraps a tf.train.Optimizer (tf is tensorflow.compat.v1), received {optimizer!r} of type "
        f"{kind.__name__}."
    )
    if any(base.__module__.startswith(("keras.", "tf_keras.")) for base in kind.__mro__):
        instead = _INSTEAD.get(kind.__name__, "an optimizer of tf.compat.v1.train")
        message += f" Keras optimizers do not train a graph of this kind; use {instead} instead."
    raise TypeError(message)


def check_number(owner: str, name: str, value: Any, least: float = 0.0, above: bool = False) -> Any:
    """Returns `value` if it is a tensor, a variable, a function that makes one, or a number in range.

    Args:
        owner: whose argument it is.
        name: the argument's name.
        value: what was given.
        least: the least number allowed.
        above: whether the number must exceed `least`.

    Raises:
        ValueError: it is a number out of range.
        TypeError: it is nothing of the kind.
    """
    if tf.is_tensor(value) or isinstance(value, tf.Variable) or callable(value):
        return value
    wanted = f"{'above' if above else 'of at least'} {least:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{owner}({name}={value!r}): expected a number {wanted}.")
    if not (value > least if above else value >= least) or value == float("inf"):
        raise ValueError(f"{owner}({name}={value!r}): expected a number {wanted}.")
    return value


def check_function(owner: str, function: Any) -> Callable[..., Any]:
    """Returns `function` if it can be called.

    Raises:
        TypeError: it cannot.
    """
    if not callable(function):
        raise TypeError(f"{owner} takes a function, received {function!r} of type {type(function).__name__}.")
    return function  # type: ignore[no-any-return]  # callable() narrows Any to something mypy calls Any


def compile_regex(owner: str, regex: Any) -> re.Pattern[str]:
    """Compiles a regular expression.

    Raises:
        TypeError: it is no string.
        ValueError: it is none.
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
    """A function that tells whether any of several regular expressions is found in a name.

    Raises:
        TypeError: `patterns` is no list of strings.
        ValueError: one is not a regular expression.
    """
    if not isinstance(patterns, (list, tuple)):
        raise TypeError(f'{owner}(exclude={patterns!r}): expected a list such as ["/b$", "^bn"].')
    compiled = [compile_regex(f"{owner}(exclude=...)", pattern) for pattern in patterns]
    return lambda name: any(pattern.search(name) for pattern in compiled)
