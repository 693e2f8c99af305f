"""Keeps the checkpoint of the best value of a statistic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback, StatisticWatch, is_better, output_directory
from ._run_writer import RunWriter, check_on_error
from .format import discard, point_to
from .variables import add_copies

__all__ = ["BestSaver", "MaxSaver", "MinSaver"]

_COLLECTIONS = (tf.GraphKeys.GLOBAL_VARIABLES,)
# The savers of a graph. A tuple, as TensorFlow writes collections of other keys into its files.
_SAVERS = ("towerpack_best_savers",)


class BestSaver(Callback):
    """Saves the run when a statistic is better than ever before in this training, resumed runs included."""

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
        self._on_error = check_on_error(self, on_error)
        self._name = f"{self._mode}-{re.sub(r'[^A-Za-z0-9_.-]', '-', monitor_stat)}"
        self._best: float | None = None
        self._wanted = False
        self._writer: RunWriter | None = None

    def _setup_graph(self) -> None:
        self._dir = output_directory(self, self._given_dir, "checkpoint_dir")
        # Reset: this object may have served an earlier training.
        self._best, self._wanted, self._writer = None, False, None
        self._check_alone()
        add_copies(self.graph, _COLLECTIONS)

    @property
    def directory(self) -> Path:
        """Where it writes, once it is set up."""
        return self._dir

    def _check_alone(self) -> None:
        """Refuses another statistic under the same name of files: each saver would remove the other's."""
        savers = self.graph.get_collection_ref(_SAVERS)
        for saver in savers:
            same_files = (saver._name, saver._dir.resolve()) == (self._name, self._dir.resolve())
            if same_files and saver._watch.name != self._watch.name:
                raise ValueError(
                    f"{saver} and {self} both write {self._name} in {self._dir}, where characters that "
                    'names of files lack become "-". Give one a checkpoint_dir= of its own, or rename '
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
        # All of them: a run that was killed here may have left one that no link leads to.
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

    The one before is removed when the new one is written. Like `ModelSaver`, it writes beside the training.

    Args:
        monitor_stat: name of the statistic, such as "validation_accuracy"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write beside the training; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.
    """

    _mode = "max"


@final
class MinSaver(BestSaver):
    """Keeps a checkpoint of the step with the lowest value of a statistic, as `min-<statistic>`.

    The one before is removed when the new one is written. Like `ModelSaver`, it writes beside the training.

    Args:
        monitor_stat: name of the statistic, such as "validation_error"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write beside the training; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.
    """

    _mode = "min"
