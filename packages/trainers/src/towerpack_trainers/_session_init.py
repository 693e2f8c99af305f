"""Values of variables before a training begins."""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, load_variables

from ._errors import RestoreError

__all__ = ["DictRestore", "SaverRestore", "SessionInit", "SmartInit", "restore_exactly"]

_log = logging.getLogger("towerpack_trainers")


class SessionInit(abc.ABC):
    """Gives variables their values, after the graph's own initializers have run."""

    @abc.abstractmethod
    def restore(self, sess: tf.Session) -> None:
        """Assigns values to variables of the session's graph."""


@attrs.frozen
class _Differences:
    """How the variables of a graph and a set of values differ."""

    missing: list[str]
    unused: list[str]
    unequal: list[str]

    @classmethod
    def between(cls, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> _Differences:
        common = sorted(set(variables) & set(values))
        return cls(
            missing=sorted(set(variables) - set(values)),
            unused=sorted(set(values) - set(variables)),
            unequal=[line for name in common if (line := _unlike(name, variables[name], values[name]))],
        )

    def describe(self) -> str:
        sections = (
            ("only in the graph", self.missing),
            ("only in the restored values", self.unused),
            ("of another shape or type", self.unequal),
        )
        return "\n".join(f"  {title}: {line}" for title, lines in sections for line in lines)


def _unlike(name: str, variable: tf.Variable, value: np.ndarray) -> str | None:
    dtype = np.dtype(variable.dtype.base_dtype.as_numpy_dtype)
    if not variable.shape.is_compatible_with(value.shape):
        return f"{name}: the graph has shape {tuple(variable.shape.as_list())}, restored is {value.shape}"
    if dtype.kind != value.dtype.kind:
        return f"{name}: the graph has {dtype.name}, restored is {value.dtype.name}"
    return None


def _global_variables(sess: tf.Session) -> dict[str, tf.Variable]:
    return {v.op.name: v for v in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}


def restore_exactly(sess: tf.Session, values: Mapping[str, np.ndarray], source: str) -> None:
    """Assigns all values to all variables.

    Raises:
        RestoreError: names, shapes or types are not the same on both sides.
    """
    variables = _global_variables(sess)
    differences = _Differences.between(variables, values)
    if differences.missing or differences.unused or differences.unequal:
        raise RestoreError(
            f"{source} does not fit this graph:\n{differences.describe()}\n"
            "Build the same model, or load it with session_init=SmartInit(path) to take what fits."
        )
    assign_variables(sess, values)


@final
class SaverRestore(SessionInit):
    """Restores every variable of the graph from a checkpoint, by name.

    Args:
        path: whatever `towerpack_callbacks.checkpoint.load_variables` reads.
        prefix: a scope that stands before each name in the graph, but not in the checkpoint.
        ignore: names of variables that keep their initial values.

    Raises:
        CheckpointError: (in `restore`) the checkpoint cannot be read.
        RestoreError: (in `restore`) it lacks a variable, or one has another shape or type.
    """

    def __init__(self, path: str | Path, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        self._path = Path(path)
        self._prefix = f"{prefix}/" if prefix else ""
        self._ignore = {name.removesuffix(":0") for name in ignore}

    def restore(self, sess: tf.Session) -> None:
        values = {self._prefix + name: value for name, value in load_variables(self._path).items()}
        wanted = {
            name: variable
            for name, variable in _global_variables(sess).items()
            if name.startswith(self._prefix) and name not in self._ignore
        }
        if not wanted:
            raise RestoreError(
                f"The graph has no variable to restore whose name begins with {self._prefix!r}."
            )
        differences = _Differences.between(wanted, values)
        if differences.missing or differences.unequal:
            raise RestoreError(
                f"{self._path} does not fit this graph:\n{differences.describe()}\n"
                "Name variables to leave alone in ignore=, or use SmartInit(path) to take what fits."
            )
        if differences.unused:
            _log.info("Not in this graph, and left out: %s", ", ".join(differences.unused))
        assign_variables(sess, {name: values[name] for name in wanted})


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
        self._values = {name.removesuffix(":0"): np.asarray(value) for name, value in values.items()}
        self._ignore_mismatch = ignore_mismatch

    def restore(self, sess: tf.Session) -> None:
        variables = _global_variables(sess)
        differences = _Differences.between(variables, self._values)
        if differences.unequal and not self._ignore_mismatch:
            raise RestoreError(
                f"Values do not fit this graph:\n{differences.describe()}\n"
                "Give ignore_mismatch=True to leave those out."
            )
        unlike = {line.split(":")[0] for line in differences.unequal}
        fitting = {name: v for name, v in self._values.items() if name in variables and name not in unlike}
        if not fitting and self._values:
            raise RestoreError(f"None of the values fits this graph:\n{differences.describe()}")
        if differences.missing or differences.unused or unlike:
            _log.warning("Restoring what fits. Left alone:\n%s", differences.describe())
        assign_variables(sess, fitting)


class _Nothing(SessionInit):
    def restore(self, sess: tf.Session) -> None:
        pass


class _Chain(SessionInit):
    def __init__(self, inits: list[SessionInit]) -> None:
        self._inits = inits

    def restore(self, sess: tf.Session) -> None:
        for init in self._inits:
            init.restore(sess)


class _FileRestore(SessionInit):
    def __init__(self, path: Path, ignore_mismatch: bool) -> None:
        self._path = path
        self._ignore_mismatch = ignore_mismatch

    def restore(self, sess: tf.Session) -> None:
        DictRestore(load_variables(self._path), self._ignore_mismatch).restore(sess)


def SmartInit(obj: Any, *, ignore_mismatch: bool = False) -> SessionInit:
    """Makes the `SessionInit` that fits: restore what is there on both sides, warn of the rest.

    Args:
        obj: None or "" for nothing; a path (checkpoint, log directory, `.npz`); a dictionary of arrays; or a
            list of such, applied in turn.
        ignore_mismatch: leave out arrays of another shape or type, with a warning.

    Raises:
        TypeError: `obj` is none of these.
        RestoreError: (in `restore`) nothing fits, or an array has another shape or type.
        CheckpointError: (in `restore`) a file cannot be read.
    """
    if obj is None or (isinstance(obj, str) and not obj):
        return _Nothing()
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, (str, Path)):
        return _FileRestore(Path(obj), ignore_mismatch)
    if isinstance(obj, Mapping):
        return DictRestore(obj, ignore_mismatch)
    if isinstance(obj, (list, tuple)):
        return _Chain([SmartInit(item, ignore_mismatch=ignore_mismatch) for item in obj])
    raise TypeError(f"SmartInit takes a path, a dictionary of arrays or a list of them, received {obj!r}.")
