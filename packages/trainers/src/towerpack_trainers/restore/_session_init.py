"""Values of variables before a training begins: from a file, arrays, objects, or several of these."""

from __future__ import annotations

import abc
import contextlib
import copy
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import averaged_variables
from towerpack_callbacks.checkpoint import assign_variables, load_variables

from .._argument_checks import check_allowed
from .._errors import RestoreError
from ._variable_differences import (
    VARIABLE_DIFFERENCES,
    Differences,
    NameMap,
    Rename,
    global_variables,
    matching_values,
    read_values,
)

__all__ = [
    "ONE_SIDED",
    "DictRestore",
    "MatchingRestore",
    "MissingAveragesError",
    "SaverRestore",
    "SessionInit",
    "SmartInit",
    "allowed_differences",
    "at_the_start_of_a_run",
    "describe_taken_over",
    "put_averages",
]

_log = logging.getLogger("towerpack_trainers")


@final
class MissingAveragesError(RestoreError):
    """Averages were requested, but the values have none for any variable of the graph."""


def put_averages(
    values: Mapping[str, np.ndarray], names: NameMap, variables: Collection[str], source: str
) -> dict[str, np.ndarray]:
    """Returns the renamed values, with averages instead of weights where available.

    Args:
        values: arrays by their names in the checkpoint.
        names: converts names of values to names of variables.
        variables: the names of the graph's variables; averages among them are kept as well.
        source: the origin of the values, for messages.

    Raises:
        MissingAveragesError: no variable of the graph has an average among the values.
    """
    try:
        averaged = averaged_variables(values)
    except ValueError as error:
        raise MissingAveragesError(
            f"ema=True, but {source} holds no averages. {error} Train with EMA(), or remove ema=True."
        ) from None
    replaced = names.apply({name: value for name, value in averaged.items() if values.get(name) is not value})
    if replaced.keys().isdisjoint(variables):
        raise MissingAveragesError(
            f"ema=True, but {source} holds only averages of {', '.join(sorted(replaced))}, which are not "
            "variables of this graph. Use rename= if they have other names here, or remove ema=True."
        )
    kept = names.apply({name: value for name, value in values.items() if name not in averaged})
    own = {name: value for name, value in kept.items() if name in variables}
    return {**own, **names.apply(averaged)}


# A predictor restores the same variables, and does not need this line.
_starts_a_run: ContextVar[bool] = ContextVar("towerpack_trainers_starts_a_run", default=False)

# The maximum number of named variables with several elements.
_NAMED = 2


@contextlib.contextmanager
def at_the_start_of_a_run() -> Iterator[None]:
    """Enables `describe_taken_over` for restoring in the block."""
    token = _starts_a_run.set(True)
    try:
        yield
    finally:
        _starts_a_run.reset(token)


def describe_taken_over(
    sess: tf.Session, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> str | None:
    """Describes in one line the changed values that are not weights of a layer; None without any.

    Outside of `at_the_start_of_a_run` it returns None.

    These are scalars, such as a learning rate, and the state of an optimizer or an average.

    Args:
        sess: the session with the previous values.
        variables: the variables of the graph, by name.
        values: the values to be assigned, by name.
    """
    if not _starts_a_run.get():
        return None
    names = _of_the_run(sess.graph, variables, values)
    # One at a time: the state of an optimizer takes as much memory as the weights, or twice as much.
    before = {name: sess.run(variables[name]) for name in names}
    changed = [name for name in names if not _are_equal(before[name], values[name])]
    if not changed:
        return None
    single = [name for name in changed if np.ndim(values[name]) == 0]
    several = [name for name in changed if name not in single]
    parts = [f"{name} {_text(before[name])} -> {_text(values[name])}" for name in single]
    if several:
        more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
        parts.append(f"the values of {', '.join(several[:_NAMED])}{more}")
    example = ", ".join(map(repr, [*single, *several][:_NAMED]))
    return (
        f"Taken over besides the weights: {', '.join(parts)}. To keep the initial values of this run, name "
        f"the variables in ignore=[{example}]."
    )


def _of_the_run(
    graph: tf.Graph, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> list[str]:
    keys = (tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.MODEL_VARIABLES)
    owned = {variable.op.name for key in keys for variable in graph.get_collection(key)}
    known = [name for name in values if name in variables and name not in owned]
    return [name for name in known if np.ndim(values[name]) == 0 or name.rpartition("/")[0] in variables]


def _are_equal(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and bool(np.all((one == other) | ((one != one) & (other != other))))


def _text(value: Any) -> str:
    item = np.asarray(value).item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)


# The default differences of `SmartInit` and `DictRestore`.
ONE_SIDED = ("missing", "unused")


class SessionInit(abc.ABC):
    """Assigns values to variables, after the graph's own initializers have run.

    Variables that copy others, such as averages and target networks, begin as copies if they are missing in
    the values. For that, a subclass assigns with `towerpack_callbacks.checkpoint.assign_variables`.

    Example:
        >>> class Zeros(SessionInit):
        ...     def restore(self, sess):
        ...         for variable in tf.trainable_variables():
        ...             variable.load(np.zeros(variable.shape), sess)
    """

    @abc.abstractmethod
    def restore(self, sess: tf.Session) -> None:
        """Assigns values to variables of the session's graph."""

    def retarget(self, place: Path, aside: Path) -> None:
        """Handles a move of an earlier run's files, which makes room for this run; by default, does nothing.

        Args:
            place: the log directory, their original place.
            aside: their current directory.
        """

    def averaged(self) -> SessionInit:
        """Returns a `SessionInit` that restores the averages of the callback `EMA` instead of the weights.

        Raises:
            RestoreError: this kind does not support it; or (in `restore`) no variable of the graph has an
                average.
        """
        raise RestoreError(
            f"{type(self).__name__} does not restore averages. Use SaverRestore(path), SmartInit(path) or a "
            "SessionInit that overrides averaged()."
        )


@final
class SaverRestore(SessionInit):
    """Restores every variable of the graph from a checkpoint, by name.

    Args:
        path: a path supported by `towerpack_callbacks.checkpoint.load_variables`.
        prefix: a scope that precedes each name in the graph, but not in the checkpoint.
        ignore: names of variables that keep their initial values, or regular expressions for such names.

    Raises:
        CheckpointError: (in `restore`) the checkpoint cannot be read.
        RestoreError: (in `restore`) it lacks a variable, or a variable has another shape or dtype.

    Example:
        >>> session_init = SaverRestore("train_log/run/latest", ignore=["fc1/.*"])  # for TrainConfig
    """

    def __init__(self, path: str | Path, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        self._path = Path(path)
        self._prefix = f"{prefix}/" if prefix else ""
        self._names = NameMap(lambda name: self._prefix + name, ignore)
        self._averaged = False

    def averaged(self) -> SessionInit:
        return _averaged(self)

    def retarget(self, place: Path, aside: Path) -> None:
        self._path = _moved(self._path, place, aside)

    def restore(self, sess: tf.Session) -> None:
        read = load_variables(self._path)
        wanted = {
            name: variable
            for name, variable in global_variables(sess.graph).items()
            if name.startswith(self._prefix) and not self._names.ignores(name)
        }
        if not wanted:
            raise RestoreError(
                f"The graph has no variable to restore with a name that begins with {self._prefix!r}."
            )
        values = _renamed(read, self._names, self._averaged, wanted, str(self._path))
        differences = Differences.between(wanted, values)
        differences.refuse(
            str(self._path),
            ["unused"],
            "Name variables to skip in ignore=, or use SmartInit(path) to restore matching variables.",
        )
        if differences.unused:
            _log.info("Skipped, since this graph does not have them: %s", differences.some_unused())
        _assign(sess, wanted, matching_values(wanted, values, differences))


@final
class DictRestore(SessionInit):
    """Restores variables from a dictionary; names on one side only are skipped, with a warning.

    Args:
        values: arrays by variable name.
        ignore_mismatch: skip arrays of another shape or dtype, with a warning.
        ignore: names of variables that keep their initial values, or regular expressions for such names.

    Raises:
        RestoreError: (in `restore`) no value matches, or an array has another shape or dtype.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weight = tf.get_variable("weight", [2])
        ...     session.run(tf.global_variables_initializer())
        ...     DictRestore({"weight": np.array([1, 2], np.float32)}).restore(session)
        ...     print(session.run(weight))
        [1. 2.]
    """

    def __init__(
        self, values: Mapping[str, np.ndarray], ignore_mismatch: bool = False, *, ignore: Iterable[str] = ()
    ) -> None:
        names, allow = NameMap(ignore=ignore), allowed_differences(ONE_SIDED, ignore_mismatch)
        self._inner: SessionInit = MatchingRestore(read_values(values), names, allow, "the given dictionary")

    def averaged(self) -> SessionInit:
        return self._inner.averaged()

    def restore(self, sess: tf.Session) -> None:
        self._inner.restore(sess)


@final
class MatchingRestore(SessionInit):
    """Restores the values that match the graph; refuses differences that are not allowed.

    Args:
        values: arrays by name, or a file with them.
        names: converts names of values to names of variables.
        allow: kinds of differences that are only listed in a warning.
        source: the origin of the values, for messages.
    """

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
        self._averaged = False

    def averaged(self) -> SessionInit:
        return _averaged(self)

    def retarget(self, place: Path, aside: Path) -> None:
        if isinstance(self._values, Path):
            self._values = _moved(self._values, place, aside)
            self._source = str(self._values)

    def restore(self, sess: tf.Session) -> None:
        read = load_variables(self._values) if isinstance(self._values, Path) else self._values
        assert read is not None
        graph = global_variables(sess.graph)
        values = _renamed(read, self._names, self._averaged, graph, self._source)
        variables = {name: variable for name, variable in graph.items() if not self._names.ignores(name)}
        differences = Differences.between(variables, values)
        differences.refuse(self._source, self._allow, _advice(differences, self._allow))
        if values and set(values) <= {*differences.unused, *differences.unequal}:
            raise RestoreError(
                f"None of the values matches this graph:\n{differences.describe()}\n"
                f"They come from: {self._source}. If they have other names there, use rename=."
            )
        if differences:
            left = differences.describe(brief=True)
            _log.warning("Restored matching variables of %s. Skipped:\n%s", self._source, left)
        _assign(sess, variables, matching_values(variables, values, differences))


_Init = TypeVar("_Init", SaverRestore, MatchingRestore)


def _averaged(init: _Init) -> _Init:
    changed = copy.copy(init)
    changed._averaged = True
    return changed


def _assign(sess: tf.Session, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> None:
    taken_over = describe_taken_over(sess, variables, values)
    assign_variables(sess, values)
    if taken_over:
        _log.warning("%s", taken_over)


def _moved(path: Path, place: Path, aside: Path) -> Path:
    """Returns the path of a file after a move from `place` to `aside`."""
    whole, around = path.resolve(), place.resolve()
    return aside / whole.relative_to(around) if whole.is_relative_to(around) else path


def _renamed(
    values: Mapping[str, np.ndarray],
    names: NameMap,
    averaged: bool,
    variables: Collection[str],
    source: str,
) -> dict[str, np.ndarray]:
    return put_averages(values, names, variables, source) if averaged else names.apply(values)


def allowed_differences(allow: Collection[str], ignore_mismatch: bool) -> frozenset[str]:
    """Returns the kinds of differences that are not refused.

    Raises:
        ConfigError: `allow` contains anything else than kinds of differences.
    """
    return check_allowed("allow", allow, VARIABLE_DIFFERENCES) | (
        {"unequal"} if ignore_mismatch else frozenset()
    )


def _advice(differences: Differences, allow: frozenset[str]) -> str:
    if differences.unequal and "unequal" not in allow:
        return "Use ignore_mismatch=True to skip values of another shape or type."
    return 'Use rename= or ignore= so that they match, or allow them: allow=["missing", "unused"].'


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
