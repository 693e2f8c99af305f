"""How the variables of a graph and a set of values differ, and which differences are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import ConfigError, RestoreError

__all__ = ["VARIABLE_DIFFERENCES", "Differences", "check_allowed"]

# What is allowed, and how it is called in a message.
_KINDS = {
    "missing": "only in the graph",
    "unused": "only in the restored values",
    "unequal": "of another shape or type",
}

VARIABLE_DIFFERENCES = tuple(_KINDS)

# So many unused values are named where a message is to be short.
_NAMED = 3


def check_allowed(
    allow: Collection[str], kinds: Sequence[str] = VARIABLE_DIFFERENCES, name: str = "allow"
) -> frozenset[str]:
    """The kinds of differences that are not refused.

    Args:
        allow: what was given.
        kinds: what it may hold.
        name: the argument's name.

    Raises:
        ConfigError: it is no list of such kinds.
    """
    if isinstance(allow, str) or not isinstance(allow, Collection) or not set(allow) <= set(kinds):
        raise ConfigError(f"{name}={allow!r}: expected a list of some of {', '.join(map(repr, kinds))}.")
    return frozenset(allow)


@final
@attrs.frozen
class Differences:
    """How the variables of a graph and a set of values differ; all sorted by name.

    Attributes:
        missing: names only in the graph.
        unused: names only among the values.
        unequal: of names on both sides, how shape or type differ.
    """

    missing: list[str]
    unused: list[str]
    unequal: dict[str, str]

    @classmethod
    def between(
        cls, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], same_type: bool = False
    ) -> Differences:
        """Compares names, shapes and types.

        Args:
            variables: by name.
            values: by name.
            same_type: whether a value of another type than its variable is a difference. Otherwise a type of
                the same kind is none if it can hold the value: floats are rounded, whole numbers are not.
        """
        common = sorted(set(variables) & set(values))
        unlike = {name: _unlike(variables[name], values[name], same_type) for name in common}
        return cls(
            missing=sorted(set(variables) - set(values)),
            unused=sorted(set(values) - set(variables)),
            unequal={name: text for name, text in unlike.items() if text is not None},
        )

    def __bool__(self) -> bool:
        return bool(self.missing or self.unused or self.unequal)

    def describe(self, brief: bool = False) -> str:
        """One line for each difference.

        Args:
            brief: one line for all unused values: in a graph without an optimizer there are many.
        """
        lines = {
            "missing": self.missing,
            "unused": [self.some_unused()] if brief and self.unused else self.unused,
            "unequal": [f"{name}: {text}" for name, text in self.unequal.items()],
        }
        return "\n".join(f"  {title}: {line}" for kind, title in _KINDS.items() for line in lines[kind])

    def some_unused(self) -> str:
        """Names the first unused values, and says how many more there are."""
        more = len(self.unused) - _NAMED
        return ", ".join(self.unused[:_NAMED]) + (f" and {more} more" if more > 0 else "")

    def refuse(self, source: str, allow: Collection[str], advice: str) -> None:
        """Raises unless all differences are of allowed kinds.

        Args:
            source: where the values come from.
            allow: "missing", "unused", "unequal", or some of them.
            advice: what to do.

        Raises:
            RestoreError: the message lists all differences.
        """
        found = {"missing": self.missing, "unused": self.unused, "unequal": self.unequal}
        if any(found[kind] for kind in _KINDS if kind not in allow):
            raise RestoreError(f"{source} does not fit this graph:\n{self.describe()}\n{advice}")


def _unlike(variable: tf.Variable, value: np.ndarray, same_type: bool) -> str | None:
    wanted = variable.dtype.base_dtype
    if not variable.shape.is_compatible_with(value.shape):
        return f"the graph has shape {tuple(variable.shape.as_list())}, restored is {value.shape}"
    if value.dtype == wanted.as_numpy_dtype or (wanted == tf.string and value.dtype.kind in "OSU"):
        return None
    types = f"the graph has {wanted.name}, restored is {value.dtype.name}"
    if same_type or _kind(value.dtype) != _kind(np.dtype(wanted.as_numpy_dtype)):
        return types
    if not _holds(np.dtype(wanted.as_numpy_dtype), value):
        return f"{types}, with values that it cannot hold"
    return None


def _kind(dtype: np.dtype[Any]) -> str:
    """Returns the kind of a type; NumPy has "V" for all that are not its own, such as bfloat16."""
    if dtype.kind != "V":
        return dtype.kind
    try:
        known = tf.as_dtype(dtype)
    except TypeError:
        return "V"
    return "f" if known.is_floating else "u" if known.is_unsigned else "i" if known.is_integer else "V"


def _holds(dtype: np.dtype[Any], value: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        converted = value.astype(dtype)
        if _kind(dtype) in "fc":
            return np.array_equal(np.isfinite(converted), np.isfinite(value))
        return np.array_equal(converted.astype(value.dtype), value)
