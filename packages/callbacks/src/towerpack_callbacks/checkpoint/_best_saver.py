"""Keeps the checkpoint of the best value of a statistic."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback
from ._publish import discard
from ._run_writer import RunWriter, check_on_error
from ._snapshot_ops import add_copies
from ._write_checkpoint import point_to

__all__ = ["MaxSaver", "MinSaver"]

_log = logging.getLogger("towerpack_callbacks")
_COLLECTIONS = (tf.GraphKeys.GLOBAL_VARIABLES,)


class _BestSaver(Callback):
    """Saves the run when a statistic is better than ever before in this training, resumed runs included."""

    _kind: str
    _sign: int

    def __init__(
        self,
        monitor_stat: str,
        checkpoint_dir: str | Path | None = None,
        *,
        background: bool = True,
        on_error: str = "stop",
    ) -> None:
        self._stat = monitor_stat
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._background = background
        self._on_error = check_on_error(self, on_error)
        self._name = f"{self._kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', self._stat)}"
        self._best: float | None = None
        self._wanted = False
        self._writer: RunWriter | None = None

    def _setup_graph(self) -> None:
        directory = self._given_dir or self.log_dir
        if directory is None:
            raise ValueError(
                f"{self} has nowhere to write: give log_dir= to the run, or checkpoint_dir= here."
            )
        self._dir = directory
        # An earlier run of the same object is another training.
        self._best, self._wanted, self._writer = None, False, None
        add_copies(self.graph, _COLLECTIONS)

    def consumes(self) -> Sequence[str]:
        return [self._stat]

    def _before_train(self) -> None:
        self._writer = RunWriter(self, self._dir, _COLLECTIONS, self._background, self._on_error)

    def _trigger(self) -> None:
        # A statistic with a longer period than ours is not there each time, and then there is nothing new.
        if self._stat not in self.trainer.monitors:
            return
        step, value = self.trainer.monitors.get_history(self._stat)[-1]
        if step == self.global_step and self._is_better(value):
            self._best = value
            self._wanted = True

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        return self._best is None or self._sign * value > self._sign * self._best

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
                self._remove(other)

    def _remove(self, path: Path) -> None:
        try:
            discard(path)
        except OSError as error:
            _log.warning("The earlier checkpoint %s could not be removed: %s.", path, error)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best = state["best"]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._stat!r})"


@final
class MaxSaver(_BestSaver):
    """Keeps a checkpoint of the step with the highest value of a statistic, as `max-<statistic>`.

    The one before is removed when the new one is written. Like `ModelSaver`, it writes beside the training.

    Args:
        monitor_stat: name of the statistic, such as "validation_accuracy"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write beside the training; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.
    """

    _kind = "max"
    _sign = 1


@final
class MinSaver(_BestSaver):
    """Keeps a checkpoint of the step with the lowest value of a statistic, as `min-<statistic>`.

    The one before is removed when the new one is written. Like `ModelSaver`, it writes beside the training.

    Args:
        monitor_stat: name of the statistic, such as "validation_error"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
        background: write beside the training; see `ModelSaver`.
        on_error: "stop" or "warn"; see `ModelSaver`.
    """

    _kind = "min"
    _sign = -1
