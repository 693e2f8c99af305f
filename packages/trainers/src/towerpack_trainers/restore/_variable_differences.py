"""Compares and matches the variables of a graph with saved values, by name."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_variables

from .._argument_checks import compile_regex
from .._errors import RestoreError

__all__ = [
    "VARIABLE_DIFFERENCES",
    "Differences",
    "NameMap",
    "Rename",
    "global_variables",
    "match_variables",
    "matching_values",
    "read_values",
]

T = TypeVar("T")
Rename = Mapping[str, str] | Callable[[str], "str | None"]


@final
class NameMap:
    """Renames restored values, and selects the variables to skip.

    Args:
        rename: new names by old names, or new scopes by old scopes ({"resnet": "backbone"} renames
            "resnet/conv0/W" to "backbone/conv0/W"; the longest match counts; the new scope may be ""). Or a
            function that maps a name to the new name, or to None to skip the value.
        ignore: regular expressions; variables with a matching whole name are skipped.

    Raises:
        TypeError: `rename` has another type, or `ignore` is one string.
        ValueError: an element of `ignore` is not a regular expression.
    """

    def __init__(self, rename: Rename | None = None, ignore: Iterable[str] = ()) -> None:
        if rename is not None and not callable(rename) and not isinstance(rename, Mapping):
            raise TypeError(f"rename={rename!r}: expected a dictionary of names, or a function of a name.")
        if isinstance(ignore, str):
            raise TypeError(f"ignore={ignore!r}: expected a list of regular expressions: [{ignore!r}].")
        self._rename = rename
        self._ignore = [compile_regex("ignore", pattern.removesuffix(":0")) for pattern in ignore]

    def ignores(self, name: str) -> bool:
        """Returns whether to skip the variable of the given name."""
        return any(pattern.fullmatch(name) for pattern in self._ignore)

    def apply(self, values: Mapping[str, T]) -> dict[str, T]:
        """Returns the values under their new names, without skipped ones.

        Raises:
            RestoreError: two values get the same name.
        """
        renamed: dict[str, T] = {}
        came_from: dict[str, str] = {}
        for old, value in values.items():
            new = self._new_name(old)
            if new is None or self.ignores(new):
                continue
            if new in renamed:
                raise RestoreError(
                    f"rename= gives two values the name {new!r}: {came_from[new]!r} and {old!r}. "
                    "Give each its own name."
                )
            renamed[new], came_from[new] = value, old
        return renamed

    def _new_name(self, name: str) -> str | None:
        if self._rename is None:
            return name
        if not isinstance(self._rename, Mapping):
            return self._rename(name)
        parts = name.split("/")
        for length in range(len(parts), 0, -1):
            old = "/".join(parts[:length])
            if old in self._rename:
                return "/".join([part for part in (self._rename[old], *parts[length:]) if part])
        return name


_OBJECTS = (tf.train.Checkpoint, tf.compat.v2.train.Checkpoint)


def read_values(source: Any) -> dict[str, np.ndarray] | None:
    """Returns arrays by variable name, or None if `source` has another type.

    Args:
        source: a path, a mapping of arrays, or a `tf.train.Checkpoint`.

    Raises:
        CheckpointError: a file cannot be read.
        RestoreError: an array is masked, or the variables of a `tf.train.Checkpoint` have no values here.
    """
    if isinstance(source, (str, Path)):
        return load_variables(source)
    if isinstance(source, Mapping):
        masked = [name for name, value in source.items() if isinstance(value, np.ma.MaskedArray)]
        if masked:
            raise RestoreError(
                f"Values are plain arrays; received masked ones for {', '.join(sorted(masked))}. "
                "Fill them first."
            )
        return {name.removesuffix(":0"): np.asarray(value) for name, value in source.items()}
    if isinstance(source, _OBJECTS):
        return _read_objects(source)
    return None


def _read_objects(checkpoint: Any) -> dict[str, np.ndarray]:
    if not tf.executing_eagerly():
        raise RestoreError(
            "The variables of a tf.train.Checkpoint have no values inside a graph. Pass it outside of any "
            "`with graph.as_default()`, or save it and pass the path."
        )
    # Through a file: only the writer can list the variables of an object with their names.
    with tempfile.TemporaryDirectory() as directory:
        return load_variables(checkpoint.write(str(Path(directory) / "objects")))


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
class Differences(NamedTuple):
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
