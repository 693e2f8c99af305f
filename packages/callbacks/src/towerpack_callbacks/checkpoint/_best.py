"""Keeps the checkpoint of the best value of a statistic."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._callback import Callback
from ._saver import save_run
from ._write import point_to

__all__ = ["MaxSaver", "MinSaver"]


class _BestSaver(Callback):
    """Saves the run when a statistic is better than ever before in this training, resumed runs included."""

    _kind: str
    _sign: int

    def __init__(self, monitor_stat: str, checkpoint_dir: str | Path | None = None) -> None:
        self._stat = monitor_stat
        self._given_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._best: float | None = None
        self._wanted = False

    def _setup_graph(self) -> None:
        directory = self._given_dir or self.log_dir
        if directory is None:
            raise ValueError(
                f"{self} has nowhere to write: give log_dir= to the run, or checkpoint_dir= here."
            )
        self._dir = directory
        # An earlier run of the same object is another training.
        self._best, self._wanted = None, False

    def consumes(self) -> Sequence[str]:
        return [self._stat]

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
            name = f"{self._kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', self._stat)}"
            pointer = self._dir / name
            old = pointer.resolve() if pointer.is_symlink() else None
            path = save_run(self, self._dir / f"{name}-{self.global_step}", (tf.GraphKeys.GLOBAL_VARIABLES,))
            point_to(pointer, path)
            if old is not None and old != path.resolve():
                shutil.rmtree(old, ignore_errors=True)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best = state["best"]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._stat!r})"


@final
class MaxSaver(_BestSaver):
    """Keeps a checkpoint of the step with the highest value of a statistic, as `max-<statistic>`.

    Args:
        monitor_stat: name of the statistic, such as "validation_accuracy"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
    """

    _kind = "max"
    _sign = 1


@final
class MinSaver(_BestSaver):
    """Keeps a checkpoint of the step with the lowest value of a statistic, as `min-<statistic>`.

    Args:
        monitor_stat: name of the statistic, such as "validation_error"; its producer must come before.
        checkpoint_dir: where to write; None: the log directory.
    """

    _kind = "min"
    _sign = -1
