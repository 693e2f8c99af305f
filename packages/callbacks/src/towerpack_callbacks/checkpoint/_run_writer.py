"""Writes checkpoints of a running training: variables, callbacks' states, and random generators."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

from .._errors import CheckpointWriteError
from ..callback._callback import Callback
from ..writing._line_file import BackgroundJob
from ._variable_values import copies_or_variables
from .format import (
    TensorFile,
    add_files,
    begin_checkpoint,
    encode_state,
    remove_unfinished,
    removed_after_error,
    write_files,
)

__all__ = ["RunWriter", "SaveState", "random_state", "set_random_state"]

_log = logging.getLogger("towerpack_callbacks")


def random_state() -> dict[str, Any]:
    """Returns the states of the generators of `random` and `numpy.random`.

    Towerpack derives its random numbers from seed and position and has no such state; user code may have.
    """
    version, internal, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    assert isinstance(numpy_state, dict)
    return {
        "python": [version, list(internal), gauss],
        "numpy": {**numpy_state, "state": _as_lists(numpy_state["state"])},
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restores the states that `random_state` returned.

    Raises:
        ValueError: the state belongs to a different kind of generator.
    """
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = dict(state["numpy"])
    numpy_state["state"] = {
        key: np.array(value, np.uint32) if isinstance(value, list) else value
        for key, value in numpy_state["state"].items()
    }
    np.random.set_state(numpy_state)


def _as_lists(internal: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in internal.items()}


@final
class RunWriter:
    """Writes checkpoints of one run for one saver. The step loop waits only for the copy.

    At most one write to a directory is active; the next one waits for it, even in another saver. A failure is
    reported to the run's coordinator at once, so that the loop stops, and is raised by the next call.

    Args:
        saver: the callback, with its session.
        directory: the output directory. It is created, and unfinished checkpoints of a killed run are
            removed.
        collections: collections of the variables to save.
        background: write in the background; otherwise `save` returns after the write.
        on_error: "stop", or "warn" to log a failure and continue training.

    Raises:
        CheckpointWriteError: the directory cannot be created or cleaned.
    """

    def __init__(
        self, saver: Callback, directory: Path, collections: Sequence[str], background: bool, on_error: str
    ) -> None:
        self._saver = saver
        self._directory = directory
        self._background = background
        self._warns = on_error == "warn"
        self._job = BackgroundJob("towerpack-checkpoint", self._report)
        self._tensor_file = TensorFile()
        copies = copies_or_variables(saver.graph, collections)
        self._copy: Callable[[], dict[str, Any]] = saver.trainer.sess.make_callable(copies)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            remove_unfinished(directory)
        except OSError as error:
            raise CheckpointWriteError(
                f"{saver} cannot write to {directory}: {error}. Give a writable directory, as log_dir= of "
                "the run or as checkpoint_dir=."
            ) from error

    def save(self, name: str, then: Callable[[Path], None]) -> None:
        """Saves the current state of the run.

        Args:
            name: the name of the checkpoint's directory.
            then: called with the path of the written checkpoint, on the same thread.

        Raises:
            CheckpointWriteError: this write failed at once, or the previous one failed.
        """
        self.wait()
        path, loop = self._directory / name, self._saver.trainer.loop
        try:
            aside, state, values = self._capture(path)
        except CheckpointWriteError as error:
            self._report(error)
            self._raise(error)
            return

        def write() -> None:
            begin = time.perf_counter()
            with _alone_in(self._directory):
                write_files(path, aside, values, state, self._tensor_file)
                then(path)
            if loop.record is not None:
                loop.record(f"write {name}", "checkpoint", begin, time.perf_counter())

        self._job.start(write)
        # Before the first step there is no training to overlap with, and other savers may still clean up.
        if not self._background or loop.epoch_num < loop.starting_epoch:
            self.wait()

    def wait(self) -> None:
        """Waits for the active write, if any.

        Raises:
            CheckpointWriteError: the write failed, and its error was not raised yet.
        """
        try:
            self._job.wait()
        except CheckpointWriteError as error:
            self._raise(error)

    def close(self) -> None:
        """Waits for the active write and frees its resources.

        Raises:
            CheckpointWriteError: the write failed, and its error was not raised yet.
        """
        try:
            self.wait()
        finally:
            self._tensor_file.close()

    def _capture(self, path: Path) -> tuple[Path, str, dict[str, Any]]:
        """Copies the current run: callbacks' files to the disk, states and variables into memory."""
        aside = begin_checkpoint(path)
        with removed_after_error(aside):
            state = encode_state(path, self._state())
            add_files(path, aside, self._saver.trainer.save_files)
            return aside, state, self._copy()

    def _state(self) -> dict[str, Any]:
        return {**self._saver.trainer.state_dict(), "random": random_state()}

    def _report(self, error: Exception) -> None:
        if self._warns and isinstance(error, CheckpointWriteError):
            _log.warning('%s Training continues because of on_error="warn".', error)
        else:
            self._saver.trainer.coord.request_stop(error)

    def _raise(self, error: CheckpointWriteError) -> None:
        if not self._warns:
            raise error


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Waits until no saver of any process writes to the directory, if its file system supports locks."""
    with contextlib.ExitStack() as opened:
        # The writer reports problems with the directory.
        with contextlib.suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Closing is not enough: a process forked in the meantime also holds the descriptor.
            opened.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


_METHODS = ("state_dict", "load_state_dict")


class _HasState(Protocol):
    """An object with a state that can be saved."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, made of values that `Callback.state_dict` may return."""

    def load_state_dict(self, state: dict[str, Any], /) -> object:
        """Restores a state that `state_dict` returned."""


@final
class SaveState(Callback):
    """Saves the states of arbitrary objects in checkpoints, and restores them when a run is resumed.

    The states are saved with those of callbacks, after all triggers of a step, and loaded before the first
    `_before_train`. The names of the objects identify the callback: a checkpoint with different names does
    not match.

    Args:
        objects: objects by names of your choice. Each has `state_dict()`, with the same types of values as
            `Callback.state_dict`, and `load_state_dict(state)`.

    Raises:
        TypeError: an object lacks one of the two methods, or no object is given.

    Example:
        ```python
        envs = NormalizeObservation(gymnasium.make_vec("Pendulum-v1", num_envs=4))
        callbacks = [PolicyEvaluator(envs), SaveState(normalization=VectorEnvState(envs))]
        ```
    """

    chief_only = False

    def __init__(self, **objects: _HasState) -> None:
        if not objects:
            raise TypeError(
                "SaveState() received no object; expected at least one. Write SaveState(name=object)."
            )
        for name, each in objects.items():
            missing = [method for method in _METHODS if not callable(getattr(each, method, None))]
            if missing or isinstance(each, type):
                why = f"it lacks {' and '.join(missing)}" if missing else "it is a class, not an instance"
                raise TypeError(
                    f"SaveState({name}={each!r}): expected an object with {' and '.join(_METHODS)}; {why}. "
                    "Give an object that has them, such as towerpack_dataflow.envs.VectorEnvState(envs) for "
                    "vector environments."
                )
        self._objects = objects

    def state_dict(self) -> dict[str, Any]:
        return {name: each.state_dict() for name, each in self._objects.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, each in self._objects.items():
            each.load_state_dict(state[name])

    def __str__(self) -> str:
        return f"SaveState({', '.join(self._objects)})"
