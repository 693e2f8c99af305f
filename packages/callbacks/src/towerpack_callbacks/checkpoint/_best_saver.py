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
# The collection of savers in a graph. The key is a tuple because TensorFlow exports collections with string
# keys.
_SAVERS = ("towerpack_best_savers",)


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
        self._on_error = check_on_error(self, on_error)
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
        savers = self.graph.get_collection_ref(_SAVERS)
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
    """

    _mode = "min"
