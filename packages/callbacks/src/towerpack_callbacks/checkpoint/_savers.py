"""Savers of checkpoints: periodic ones, and the best by a statistic."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..callback._callback import Callback, output_directory
from ..callback._every import check_choice, check_count
from ..callback._proxy_callback import ProxyCallback
from ..callback._trainer_protocol import StatisticWatch, is_better
from ._run_writer import RunWriter
from ._variable_values import add_copies
from .format import (
    LATEST,
    all_checkpoints,
    checkpoint_name,
    discard,
    disk_usage,
    linked,
    point_to,
    readable_size,
    step_of,
)

__all__ = [
    "BestSaver",
    "KeepBest",
    "MaxSaver",
    "MinSaver",
    "ModelSaver",
    "Retention",
    "checkpoint_directories",
    "save_now",
]

_log = logging.getLogger("towerpack_callbacks")


def _positive(holder: object, attribute: Any, value: object) -> None:
    check_count(f"{attribute.name}={value!r}", value, optional=attribute.default is None)


def _check_on_error(saver: Callback, on_error: str) -> str:
    """Checks the `on_error` argument of a saver and returns it.

    Raises:
        ValueError: `on_error` is neither "stop" nor "warn".
    """
    if on_error not in {"stop", "warn"}:
        raise ValueError(
            f'{type(saver).__name__}(on_error={on_error!r}): expected "stop", or "warn" to continue training.'
        )
    return on_error


@final
@attrs.frozen
class KeepBest:
    """Keeps the checkpoints at which a statistic was best.

    The value of a checkpoint is the one put at exactly its step. Checkpoints without a value, or with NaN,
    are never among the best. Of equal values, the earlier one is better.

    Args:
        stat: name of the statistic, such as "validation_accuracy".
        mode: "max" if larger is better, or "min".
        count: the number of best checkpoints to keep.

    Raises:
        ValueError: the mode is neither "max" nor "min", or the count is below 1.

    Example:
        ```python
        ModelSaver(keep_last=3, keep_best=KeepBest("validation_error", "min", count=5))
        ```
    """

    stat: str
    mode: str = attrs.field(default="max")
    count: int = attrs.field(default=1, validator=_positive)

    @mode.validator
    def _check_mode(self, attribute: attrs.Attribute[str], value: object) -> None:
        check_choice(f"KeepBest(mode={value!r})", value, ("max", "min"))

    def choose(self, values: Mapping[int, float]) -> set[int]:
        """Selects the best steps.

        Args:
            values: values of the statistic, by step.
        """
        sign = -1 if self.mode == "max" else 1
        known = [(sign * value, step) for step, value in values.items() if not math.isnan(value)]
        return {step for _, step in sorted(known)[: self.count]}


@final
@attrs.frozen(kw_only=True)
class Retention:
    """The rules of one saver: a checkpoint is kept if any rule selects it.

    Args:
        keep_last: the number of newest checkpoints to keep; None: all.
        keep_best: keep the checkpoints with the best values of a statistic.
        keep_every: keep the first checkpoint in each interval of this many steps, forever.

    Raises:
        ValueError: a number is below 1.
    """

    keep_last: int | None = attrs.field(default=None, validator=_positive)
    keep_best: KeepBest | None = None
    keep_every: int | None = attrs.field(default=None, validator=_positive)

    def choose(self, steps: Sequence[int], values: Mapping[int, float]) -> set[int]:
        """Selects the steps of the checkpoints to keep.

        Args:
            steps: the steps of all existing checkpoints.
            values: known values of the statistic of `keep_best`, by step.
        """
        if self.keep_last is None:
            return set(steps)
        ordered = sorted(steps)
        kept = set(ordered[-self.keep_last :])
        if self.keep_best is not None:
            kept |= self.keep_best.choose({step: values[step] for step in ordered if step in values})
        if self.keep_every is not None:
            # Reversed, so that the first step of each interval remains in the dictionary.
            kept |= set({step // self.keep_every: step for step in reversed(ordered)}.values())
        return kept


# The collection of savers in a graph. The key is a tuple because TensorFlow exports collections with string
# keys.
_SAVERS = ("towerpack_model_savers",)


@final
class ModelSaver(Callback):
    """Writes a checkpoint of everything (see `towerpack_callbacks.checkpoint`) at each trigger.

    The checkpoint is made after all triggers of that step, so a run resumed from it is identical to the
    original. The step loop waits until variables and states are copied; writing continues in the background,
    one checkpoint at a time. If a checkpoint cannot be written, the training stops at its next step.

    A checkpoint is kept if `keep_last`, `keep_best` or `keep_every` selects it, or if a symbolic link in the
    directory points to it: `latest`, the best ones of `MaxSaver` and `MinSaver`, and links made by the user.
    The selection depends on the existing files, so a resumed run makes the same one. If several savers share
    a directory, each counts its own checkpoints, and a checkpoint is kept if any saver keeps it. The disk
    usage of all checkpoints is logged when the first one is removed, or else at the end.

    Args:
        keep_last: the number of newest checkpoints to keep; None keeps all.
        keep_best: keep the checkpoints with the best values of a statistic; its producer must come before.
        keep_every: keep the first checkpoint in each interval of this many steps.
        checkpoint_dir: the output directory; None: the log directory.
        var_collections: collections of the variables to save.
        background: write in the background, which takes memory for one copy of the variables. Otherwise the
            loop waits until the checkpoint is written.
        on_error: "stop" to end the training if a checkpoint cannot be written, or "warn" to log the error and
            continue.

    Raises:
        ValueError: a number is below 1, `on_error` is invalid, or there is no output directory.
        CheckpointWriteError: (while training) a checkpoint could not be written.

    Example:
        ```python
        ModelSaver(keep_last=3, keep_best=KeepBest("validation_accuracy"), keep_every=100_000)
        ```
    """

    def __init__(
        self,
        keep_last: int | None = 10,
        *,
        keep_best: KeepBest | None = None,
        keep_every: int | None = None,
        checkpoint_dir: str | Path | None = None,
        var_collections: str | Sequence[str] = (tf.GraphKeys.GLOBAL_VARIABLES,),
        background: bool = True,
        on_error: str = "stop",
    ) -> None:
        if keep_best is not None and not isinstance(keep_best, KeepBest):
            raise TypeError(f"ModelSaver(keep_best={keep_best!r}): expected KeepBest(statistic).")
        self._retention = Retention(keep_last=keep_last, keep_best=keep_best, keep_every=keep_every)
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._collections = (var_collections,) if isinstance(var_collections, str) else tuple(var_collections)
        self._background = background
        self._on_error = _check_on_error(self, on_error)
        self._values: dict[int, float] = {}
        self._steps: list[int] | None = None
        self._written = -1
        self._told = False
        self._others: list[ModelSaver] = []
        self._wanted = False
        self._saved_step: int | None = None
        self._writer: RunWriter | None = None

    def consumes(self) -> Sequence[str]:
        best = self._retention.keep_best
        return () if best is None else [best.stat]

    def _setup_graph(self) -> None:
        self._dir = output_directory(self, self._given_dir, "checkpoint_dir")
        # Reset: this object may have served an earlier training.
        self._values, self._wanted, self._saved_step, self._writer = {}, False, None, None
        self._steps, self._written, self._others, self._told = None, -1, [], False
        add_copies(self.graph, self._collections)
        self.graph.get_collection_ref(_SAVERS).append(self)

    def _before_train(self) -> None:
        savers, here = self.graph.get_collection(_SAVERS), self._dir.resolve()
        self._others = [saver for saver in savers if saver is not self and saver._dir.resolve() == here]
        if self._others and self._steps is None:
            self._steps = self._steps_there(self.global_step)
        self._writer = RunWriter(self, self._dir, self._collections, self._background, self._on_error)

    @property
    def directory(self) -> Path:
        """The output directory, after set-up."""
        return self._dir

    def _trigger(self) -> None:
        self._wanted = True

    def save_now(self) -> None:
        """Writes a checkpoint of the current step unless it exists, and returns when it is written.

        Call it in a loop that is about to end, between a step's triggers and the next step.

        Raises:
            CheckpointWriteError: this checkpoint or the previous one could not be written.
        """
        assert self._writer is not None
        if self._saved_step != self.global_step:
            self._save(self._writer)
        self._writer.wait()

    def _after_triggers(self) -> None:
        if self._wanted:
            self._wanted = False
            assert self._writer is not None
            self._save(self._writer)

    def _save(self, writer: RunWriter) -> None:
        began = time.monotonic()
        self._note_value()
        step = self._saved_step = self.global_step
        if self._others:
            self._steps = sorted(self._retention.choose([*self._own_steps(), step], self._values))
        for other in self._others:
            if other._saved_step == step and other._writer is not None:
                other._writer.wait()  # the state of the later one has the steps of both, and must remain
        writer.save(checkpoint_name(step), lambda path: self._finish(path, step))
        self.trainer.loop.spend("save", time.monotonic() - began)

    def _after_train(self) -> None:
        if self._writer is not None:
            self._writer.close()
            if self._written >= 0:
                self._tell_disk_usage()

    def _note_value(self) -> None:
        best = self._retention.keep_best
        if best is not None:
            value = StatisticWatch(best.stat).value_at(self.trainer.monitors, self.global_step)
            if value is not None:
                self._values[self.global_step] = value

    def _finish(self, path: Path, step: int) -> None:
        self._written = step
        if all(other._written <= step for other in self._others):
            point_to(self._dir / LATEST, path)
        kept, linked_to = self._kept(step), linked(self._dir)
        for number in self._steps_there(step):
            old = self._dir / checkpoint_name(number)
            if number not in kept and old.resolve() not in linked_to:
                discard(old)
                self._tell_disk_usage()

    def _tell_disk_usage(self) -> None:
        """Logs the disk usage of the checkpoints once; a shared file counts once."""
        there = all_checkpoints(self._dir)
        if there and not self._told:
            held = readable_size(disk_usage(there))
            _log.info("Checkpoints in %s: %d, using %s on the disk.", self._dir, len(there), held)
            self._told = True

    def _steps_there(self, last: int) -> list[int]:
        """Lists the steps of all checkpoints up to a step.

        Later checkpoints belong to a run that was resumed from an earlier step; they count when this run
        reaches them.
        """
        return [step for step in map(step_of, all_checkpoints(self._dir)) if step <= last]

    def _kept(self, step: int) -> set[int]:
        if not self._others:
            return self._retention.choose(self._steps_there(step), self._values)
        return {number for saver in (self, *self._others) for number in saver._own_steps()}

    def _own_steps(self) -> list[int]:
        """Lists the steps of the checkpoints that this saver wrote and keeps."""
        return self._steps or []

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if self._values:
            # A list of pairs, because the keys of a JSON object are strings.
            state["values"] = [[step, value] for step, value in self._values.items()]
        if self._others:
            state["steps"] = self._own_steps()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._values = {int(step): value for step, value in state.get("values", ())}
        self._steps = [int(step) for step in state["steps"]] if "steps" in state else None


_COLLECTIONS = (tf.GraphKeys.GLOBAL_VARIABLES,)
# The collection of savers in a graph. The key is a tuple because TensorFlow exports collections with string
# keys.
_BEST_SAVERS = ("towerpack_best_savers",)


class BestSaver(Callback):
    """Saves the run when a statistic reaches a new best value in this training, resumed runs included."""

    _mode: str

    def __init__(
        self,
        monitor_stat: str,
        checkpoint_dir: str | Path | None = None,
        *,
        background: bool = True,
        on_error: str = "stop",
    ) -> None:
        self._watch = StatisticWatch(monitor_stat)
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._background = background
        self._on_error = _check_on_error(self, on_error)
        self._name = f"{self._mode}-{re.sub(r'[^A-Za-z0-9_.-]', '-', monitor_stat)}"
        self._best: float | None = None
        self._wanted = False
        self._writer: RunWriter | None = None

    def _setup_graph(self) -> None:
        self._dir = output_directory(self, self._given_dir, "checkpoint_dir")
        # Reset, because an earlier training may have used this object.
        self._best, self._wanted, self._writer = None, False, None
        self._check_alone()
        add_copies(self.graph, _COLLECTIONS)

    @property
    def directory(self) -> Path:
        """The output directory, after set-up."""
        return self._dir

    def _check_alone(self) -> None:
        """Refuses a second statistic with the same file names, whose checkpoints this saver would remove."""
        savers = self.graph.get_collection_ref(_BEST_SAVERS)
        for saver in savers:
            same_files = (saver._name, saver._dir.resolve()) == (self._name, self._dir.resolve())
            if same_files and saver._watch.name != self._watch.name:
                raise ValueError(
                    f"{saver} and {self} both write {self._name} in {self._dir}, because characters that "
                    'are invalid in file names become "-". Give one a different checkpoint_dir=, or rename '
                    "its statistic."
                )
        savers.append(self)

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _before_train(self) -> None:
        self._writer = RunWriter(self, self._dir, _COLLECTIONS, self._background, self._on_error)

    def _trigger(self) -> None:
        value = self._watch.value_at(self.trainer.monitors, self.global_step)
        if value is not None and is_better(value, self._best, self._mode):
            self._best = value
            self._wanted = True

    def _after_triggers(self) -> None:
        if self._wanted:
            self._wanted = False
            assert self._writer is not None
            self._writer.save(f"{self._name}-{self.global_step}", self._finish)

    def _after_train(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _finish(self, path: Path) -> None:
        point_to(self._dir / self._name, path)
        # Remove all of them: a run killed here may have left a checkpoint without a link.
        for other in self._dir.glob(f"{self._name}-*"):
            if other != path and other.name.removeprefix(f"{self._name}-").isdigit():
                discard(other)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best = state["best"]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._watch.name!r})"


@final
class MaxSaver(BestSaver):
    """Keeps a checkpoint of the step with the highest value of a statistic, as `max-<statistic>`.

    The previous one is removed once the new one is written. Like `ModelSaver`, it writes in the background.

    Args:
        monitor_stat: name of the statistic, such as "validation_accuracy"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write in the background; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.

    Example:
        >>> from towerpack_callbacks import InferenceRunner, ScalarStats
        >>> test = [[[0.0, 1.0], [1, 0]]]  # a flow of batches
        >>> callbacks = [InferenceRunner(test, ScalarStats("accuracy")), MaxSaver("validation_accuracy")]
    """

    _mode = "max"


@final
class MinSaver(BestSaver):
    """Keeps a checkpoint of the step with the lowest value of a statistic, as `min-<statistic>`.

    The previous one is removed once the new one is written. Like `ModelSaver`, it writes in the background.

    Args:
        monitor_stat: name of the statistic, such as "validation_error"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write in the background; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.

    Example:
        >>> from towerpack_callbacks import ClassificationError, InferenceRunner
        >>> test = [[[0.0, 1.0], [1, 0]]]  # a flow of batches
        >>> callbacks = [InferenceRunner(test, ClassificationError()), MinSaver("validation_error")]
    """

    _mode = "min"


def save_now(callbacks: Iterable[Callback]) -> bool:
    """Writes a checkpoint of the current step with each `ModelSaver`; see `ModelSaver.save_now`.

    Args:
        callbacks: the callbacks of a run, including savers wrapped in others, such as `PeriodicTrigger`.

    Returns:
        Whether the callbacks include a saver.
    """
    savers = [saver for saver in map(_innermost, callbacks) if isinstance(saver, ModelSaver)]
    for saver in savers:
        saver.save_now()
    return bool(savers)


def checkpoint_directories(callbacks: Iterable[Callback]) -> set[Path]:
    """Returns the output directories of the savers, so that a loop may lock them.

    Args:
        callbacks: the callbacks of a run, after set-up, including savers wrapped in others.
    """
    innermost = map(_innermost, callbacks)
    return {saver.directory for saver in innermost if isinstance(saver, ModelSaver | BestSaver)}


def _innermost(callback: Callback) -> Callback:
    while isinstance(callback, ProxyCallback):
        callback = callback.callback
    return callback
