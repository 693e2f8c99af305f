"""Values of variables by name: their sources, and the conversion of their names."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_variables

from .._errors import RestoreError

__all__ = ["NameMap", "Rename", "read_values"]


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
        self._ignore = [_compile(pattern.removesuffix(":0")) for pattern in ignore]

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


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"ignore: {pattern!r} is not a regular expression: {error}.") from error


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
