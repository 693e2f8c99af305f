"""Differences between the variables of a graph and a set of values, and their refusal."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import RestoreError

__all__ = [
    "VARIABLE_DIFFERENCES",
    "Differences",
    "global_variables",
    "match_variables",
    "matching_values",
]

_log = logging.getLogger("towerpack_trainers")


# The kinds of differences, with their titles in messages.
_KINDS = {
    "missing": "only in the graph",
    "unused": "only in the restored values",
    "unequal": "of another shape or type",
}

VARIABLE_DIFFERENCES = tuple(_KINDS)

# The maximum number of unused values in a short message.
_NAMED = 3


@final
@attrs.frozen
class Differences:
    """The differences between the variables of a graph and a set of values; all sorted by name.

    Attributes:
        missing: names only in the graph.
        unused: names only among the values.
        unequal: for names on both sides, the difference in shape or dtype.
    """

    missing: list[str]
    unused: list[str]
    unequal: dict[str, str]

    @classmethod
    def between(
        cls, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], same_type: bool = False
    ) -> Differences:
        """Compares names, shapes and dtypes.

        Args:
            variables: variables by name.
            values: arrays by name.
            same_type: whether any other dtype counts as a difference. If False, a dtype of the same kind is
                accepted if it can hold the value: floats are rounded, whole numbers are not.
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
        """Describes each difference in one line.

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
        """Returns the names of the first unused values, and the number of the others."""
        more = len(self.unused) - _NAMED
        return ", ".join(self.unused[:_NAMED]) + (f" and {more} more" if more > 0 else "")

    def refuse(self, source: str, allow: Collection[str], advice: str) -> None:
        """Raises an error unless all differences are of allowed kinds.

        Args:
            source: the origin of the values.
            allow: some of "missing", "unused", "unequal".
            advice: the last sentence of the message.

        Raises:
            RestoreError: there are other differences; the message lists all.
        """
        found = {"missing": self.missing, "unused": self.unused, "unequal": self.unequal}
        if any(found[kind] for kind in _KINDS if kind not in allow):
            raise RestoreError(f"{source} does not match this graph:\n{self.describe()}\n{advice}")


def _unlike(variable: tf.Variable, value: np.ndarray, same_type: bool) -> str | None:
    wanted = variable.dtype.base_dtype
    if not variable.shape.is_compatible_with(value.shape):
        return f"the graph has shape {tuple(variable.shape.as_list())}, the restored value has {value.shape}"
    if value.dtype == wanted.as_numpy_dtype or (wanted == tf.string and value.dtype.kind in "OSU"):
        return None
    types = f"the graph has {wanted.name}, the restored value has {value.dtype.name}"
    if same_type or _kind(value.dtype) != _kind(np.dtype(wanted.as_numpy_dtype)):
        return types
    if not _holds(np.dtype(wanted.as_numpy_dtype), value):
        return f"{types}, with values that the graph's type cannot hold"
    return None


def _kind(dtype: np.dtype[Any]) -> str:
    """Returns the kind of a dtype; NumPy has "V" for all foreign dtypes, such as bfloat16."""
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


def global_variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """Returns the variables of a graph by name."""
    return {v.op.name: v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}


def matching_values(
    variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], differences: Differences
) -> dict[str, np.ndarray]:
    """Returns the values that have a variable of their name, shape and type."""
    matching = [name for name in values if name in variables and name not in differences.unequal]
    return {name: values[name] for name in matching}


def match_variables(
    graph: tf.Graph, values: Mapping[str, np.ndarray], source: str, allow: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Returns the initial values of a graph's variables: all of them, unless a difference is allowed.

    Args:
        graph: the graph with the variables.
        values: arrays by variable name.
        source: the origin of the values.
        allow: kinds of differences that are logged instead of refused; see `SmartInit`.

    Raises:
        RestoreError: names, shapes or dtypes differ between variables and values.
    """
    variables = global_variables(graph)
    differences = Differences.between(variables, values, same_type=True)
    differences.refuse(
        source,
        allow,
        "Build the same model; or allow the difference with resume_allow=[...]; or start a new run from the "
        "matching values with session_init=SmartInit(path).",
    )
    if differences:
        _log.warning(
            "%s does not match this graph (allowed by resume_allow):\n%s", source, differences.describe()
        )
    return matching_values(variables, values, differences)
