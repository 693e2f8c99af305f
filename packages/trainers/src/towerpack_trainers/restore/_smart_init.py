"""Makes a `SessionInit` for the given source: a file, arrays, objects, a list of these, or nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._named_values import NameMap, Rename, read_values
from ._session_init import ONE_SIDED, MatchingRestore, MissingAveragesError, SessionInit, allowed_differences

__all__ = ["SmartInit"]


def SmartInit(
    obj: Any,
    *,
    ignore_mismatch: bool = False,
    rename: Rename | None = None,
    ignore: Iterable[str] = (),
    allow: Collection[str] = ONE_SIDED,
) -> SessionInit:
    """Makes a `SessionInit` that restores all matching variables, and lists the others in a warning.

    Args:
        obj: None or "" for nothing; a path (checkpoint, log directory, TensorFlow checkpoint of either kind,
            `.npz`, `.caffemodel`); a dictionary of arrays; a `tf.train.Checkpoint`, with the current values
            of its variables under their original names; or a list of these, applied in turn.
        ignore_mismatch: skip arrays of another shape or dtype; the same as "unequal" in `allow`.
        rename: the names of values in this graph: a dictionary of names or of leading scopes, or a function
            that maps a name to another, or to None to skip the value.
        ignore: regular expressions; variables with a matching whole name are skipped.
        allow: differences that are not refused: "missing" (only in the graph), "unused" (only among the
            values), "unequal" (of another shape or dtype). Empty: every variable needs a value, and every
            value must be used.

    Raises:
        TypeError: `obj`, `rename` or `ignore` has another type.
        ValueError: `allow` or `ignore` contains an invalid element.
        RestoreError: (in `restore`) no value matches, or there is a difference that is not allowed; the
            message lists all differences.
        CheckpointError: (in `restore`) a file cannot be read.

    Example:
        ```python
        SmartInit("resnet50.npz", rename={"resnet": "backbone"}, ignore=["linear/.*", ".*/Momentum"])
        ```
    """
    options = NameMap(rename, ignore), allowed_differences(allow, ignore_mismatch)
    return _smart_init(obj, *options)


def _smart_init(obj: Any, names: NameMap, allow: frozenset[str]) -> SessionInit:
    if obj is None or (isinstance(obj, str) and not obj):
        return _Chain([])
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, (str, Path)):
        return MatchingRestore(Path(obj), names, allow, str(obj))
    if isinstance(obj, (list, tuple)):
        return _Chain([_smart_init(item, names, allow) for item in obj])
    values = read_values(obj)
    if values is None:
        raise TypeError(
            "SmartInit takes a path, a dictionary of arrays, a tf.train.Checkpoint or a list of them, "
            f"received {obj!r}."
        )
    kind = "dictionary" if isinstance(obj, Mapping) else type(obj).__name__
    return MatchingRestore(values, names, allow, f"the given {kind}")


@final
class _Chain(SessionInit):
    """Applies several in order; an empty list restores nothing."""

    def __init__(self, inits: list[SessionInit]) -> None:
        self._inits = inits

    def retarget(self, place: Path, aside: Path) -> None:
        for init in self._inits:
            init.retarget(place, aside)

    def restore(self, sess: tf.Session) -> None:
        for init in self._inits:
            init.restore(sess)

    def averaged(self) -> SessionInit:
        return _AveragedChain(self._inits)


@final
class _AveragedChain(SessionInit):
    """Applies several, with averages where available; at least one must have averages."""

    def __init__(self, inits: list[SessionInit]) -> None:
        self._inits = inits

    def restore(self, sess: tf.Session) -> None:
        missing = [error for init in self._inits if (error := _restore_averages(init, sess)) is not None]
        if len(missing) == len(self._inits):
            raise MissingAveragesError("\n".join(map(str, missing)) or "ema=True, but nothing is restored.")


def _restore_averages(init: SessionInit, sess: tf.Session) -> MissingAveragesError | None:
    """Restores averages; if there are none, restores the values and returns the corresponding error."""
    try:
        init.averaged().restore(sess)
    except MissingAveragesError as error:
        init.restore(sess)
        return error
    return None
