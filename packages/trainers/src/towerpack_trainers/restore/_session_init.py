"""Values of variables before a training begins."""

from __future__ import annotations

import abc
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, load_variables

from .._errors import RestoreError
from ._value_sources import read_values
from ._variable_differences import Differences, check_allowed
from ._variable_names import NameMap, Rename

__all__ = ["DictRestore", "SaverRestore", "SessionInit", "SmartInit", "fitting_exactly"]

_log = logging.getLogger("towerpack_trainers")
_ONE_SIDED = ("missing", "unused")


class SessionInit(abc.ABC):
    """Gives variables their values, after the graph's own initializers have run."""

    @abc.abstractmethod
    def restore(self, sess: tf.Session) -> None:
        """Assigns values to variables of the session's graph."""


def _global_variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    return {v.op.name: v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}


def _fitting(
    variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], differences: Differences
) -> dict[str, np.ndarray]:
    fitting = [name for name in values if name in variables and name not in differences.unequal]
    return {name: values[name] for name in fitting}


def fitting_exactly(
    graph: tf.Graph, values: Mapping[str, np.ndarray], source: str, allow: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """What of some values the variables of a graph shall begin with: all of them, if nothing else is allowed.

    Args:
        graph: has the variables.
        values: arrays by variable name.
        source: where they come from.
        allow: kinds of differences that are logged and not refused; see `SmartInit`.

    Raises:
        RestoreError: names, shapes or types are not the same on both sides.
    """
    variables = _global_variables(graph)
    differences = Differences.between(variables, values)
    differences.refuse(
        source,
        allow,
        "Build the same model; or allow the difference, resume_allow=[...]; or start anew from what fits, "
        "session_init=SmartInit(path).",
    )
    if differences:
        _log.warning("%s does not fit this graph, as is allowed:\n%s", source, differences.describe())
    return _fitting(variables, values, differences)


@final
class SaverRestore(SessionInit):
    """Restores every variable of the graph from a checkpoint, by name.

    Args:
        path: whatever `towerpack_callbacks.checkpoint.load_variables` reads.
        prefix: a scope that stands before each name in the graph, but not in the checkpoint.
        ignore: names of variables that keep their initial values, or regular expressions that match them.

    Raises:
        CheckpointError: (in `restore`) the checkpoint cannot be read.
        RestoreError: (in `restore`) it lacks a variable, or one has another shape or type.
    """

    def __init__(self, path: str | Path, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        self._path = Path(path)
        self._prefix = f"{prefix}/" if prefix else ""
        self._names = NameMap(lambda name: self._prefix + name, ignore)

    def restore(self, sess: tf.Session) -> None:
        values = self._names.apply(load_variables(self._path))
        wanted = {
            name: variable
            for name, variable in _global_variables(sess.graph).items()
            if name.startswith(self._prefix) and not self._names.ignores(name)
        }
        if not wanted:
            raise RestoreError(
                f"The graph has no variable to restore whose name begins with {self._prefix!r}."
            )
        differences = Differences.between(wanted, values)
        differences.refuse(
            str(self._path),
            ["unused"],
            "Name variables to leave alone in ignore=, or use SmartInit(path) to take what fits.",
        )
        if differences.unused:
            _log.info("Not in this graph, and left out: %s", ", ".join(differences.unused))
        assign_variables(sess, _fitting(wanted, values, differences))


@final
class DictRestore(SessionInit):
    """Restores variables from a dictionary; what stands on one side only is left alone, with a warning.

    Args:
        values: arrays by variable name.
        ignore_mismatch: leave out arrays of another shape or type, with a warning.

    Raises:
        RestoreError: (in `restore`) nothing fits, or an array has another shape or type.
    """

    def __init__(self, values: Mapping[str, np.ndarray], ignore_mismatch: bool = False) -> None:
        self._inner = _Restore(
            read_values(values), NameMap(), _allowed(_ONE_SIDED, ignore_mismatch), "the given dictionary"
        )

    def restore(self, sess: tf.Session) -> None:
        self._inner.restore(sess)


class _Nothing(SessionInit):
    def restore(self, sess: tf.Session) -> None:
        pass


class _Chain(SessionInit):
    def __init__(self, inits: list[SessionInit]) -> None:
        self._inits = inits

    def restore(self, sess: tf.Session) -> None:
        for init in self._inits:
            init.restore(sess)


class _Restore(SessionInit):
    """Restores what `names` makes of the values; differences that are not allowed are refused."""

    def __init__(
        self,
        values: Mapping[str, np.ndarray] | Path | None,
        names: NameMap,
        allow: frozenset[str],
        source: str,
    ) -> None:
        self._values = values
        self._names = names
        self._allow = allow
        self._source = source

    def restore(self, sess: tf.Session) -> None:
        read = load_variables(self._values) if isinstance(self._values, Path) else self._values
        assert read is not None
        values = self._names.apply(read)
        graph = _global_variables(sess.graph)
        variables = {name: variable for name, variable in graph.items() if not self._names.ignores(name)}
        differences = Differences.between(variables, values)
        differences.refuse(self._source, self._allow, _advice(differences, self._allow))
        if values and set(values) <= {*differences.unused, *differences.unequal}:
            raise RestoreError(
                f"None of the values fits this graph:\n{differences.describe()}\n"
                f"They come from: {self._source}. If they have other names there, give rename=."
            )
        if differences:
            _log.warning("Restoring what fits of %s. Left alone:\n%s", self._source, differences.describe())
        assign_variables(sess, _fitting(variables, values, differences))


def SmartInit(
    obj: Any,
    *,
    ignore_mismatch: bool = False,
    rename: Rename | None = None,
    ignore: Iterable[str] = (),
    allow: Collection[str] = _ONE_SIDED,
) -> SessionInit:
    """Makes the `SessionInit` that fits: restore what is there on both sides, list the rest in a warning.

    Args:
        obj: None or "" for nothing; a path (checkpoint, log directory, TensorFlow checkpoint of either kind,
            `.npz`); a dictionary of arrays; a `tf.train.Checkpoint`, whose variables are taken as they are
            now, under the names they were made with; or a list of such, applied in turn.
        ignore_mismatch: leave out arrays of another shape or type; the same as "unequal" in `allow`.
        rename: what values are called in this graph: a dictionary of names or of leading scopes, or a
            function from a name to another, or to None for what is to be left out.
        ignore: regular expressions; variables whose whole name one of them matches are left alone.
        allow: differences that are not refused: "missing" (only in the graph), "unused" (only among the
            values), "unequal" (of another shape or type). Empty: each variable gets a value, and each value
            is used.

    Raises:
        TypeError: `obj`, `rename` or `ignore` is none of these.
        ValueError: `allow` or `ignore` holds something else.
        RestoreError: (in `restore`) nothing fits, or there is a difference that is not allowed; the message
            lists all differences.
        CheckpointError: (in `restore`) a file cannot be read.

    Example:
        ```python
        SmartInit("resnet50.npz", rename={"resnet": "backbone"}, ignore=["linear/.*", ".*/Momentum"])
        ```
    """
    options = NameMap(rename, ignore), _allowed(allow, ignore_mismatch)
    return _smart_init(obj, *options)


def _smart_init(obj: Any, names: NameMap, allow: frozenset[str]) -> SessionInit:
    if obj is None or (isinstance(obj, str) and not obj):
        return _Nothing()
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, (str, Path)):
        return _Restore(Path(obj), names, allow, str(obj))
    if isinstance(obj, (list, tuple)):
        return _Chain([_smart_init(item, names, allow) for item in obj])
    values = read_values(obj)
    if values is None:
        raise TypeError(
            "SmartInit takes a path, a dictionary of arrays, a tf.train.Checkpoint or a list of them, "
            f"received {obj!r}."
        )
    kind = "dictionary" if isinstance(obj, Mapping) else type(obj).__name__
    return _Restore(values, names, allow, f"the given {kind}")


def _allowed(allow: Collection[str], ignore_mismatch: bool) -> frozenset[str]:
    return check_allowed(allow) | ({"unequal"} if ignore_mismatch else frozenset())


def _advice(differences: Differences, allow: frozenset[str]) -> str:
    if differences.unequal and "unequal" not in allow:
        return "Give ignore_mismatch=True to leave those of another shape or type out."
    return 'Give rename= or ignore= so that they fit, or allow them: allow=["missing", "unused"].'
