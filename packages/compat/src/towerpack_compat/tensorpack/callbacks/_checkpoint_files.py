"""Savers that write checkpoints of TensorFlow, in the directories of Tensorpack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

import tensorflow.compat.v1 as tf

from ..utils import logger
from ._old_callback import Callback

__all__ = ["MaxSaver", "MinSaver", "ModelSaver"]


class ModelSaver(Callback):
    """Saves the model as `model-<step>` when it is triggered.

    Args:
        max_to_keep: the number of checkpoints to keep.
        keep_checkpoint_every_n_hours: the interval, in hours, of checkpoints that are kept permanently.
        checkpoint_dir: the directory; None: the directory of the logger.
        var_collections: a collection of variables to save, or a list of collections; None: all variables.
    """

    def __init__(
        self,
        max_to_keep: int = 10,
        keep_checkpoint_every_n_hours: float = 0.5,
        checkpoint_dir: str | None = None,
        var_collections: str | Sequence[str] | None = None,
    ) -> None:
        self._max_to_keep, self._keep_hours = max_to_keep, keep_checkpoint_every_n_hours
        collections = [tf.GraphKeys.GLOBAL_VARIABLES] if var_collections is None else var_collections
        self.var_collections = [collections] if isinstance(collections, str) else list(collections)
        self.checkpoint_dir = checkpoint_dir or logger.get_logger_dir()
        if self.checkpoint_dir is not None:
            os.makedirs(self.checkpoint_dir, exist_ok=True)

    def _setup_graph(self) -> None:
        assert self.checkpoint_dir is not None, "Call logger.set_logger_dir(), or set checkpoint_dir."
        variables = {
            variable.ref(): variable for key in self.var_collections for variable in tf.get_collection(key)
        }
        self.path = os.path.join(self.checkpoint_dir, "model")
        self.saver = tf.train.Saver(
            var_list=list(variables.values()),
            max_to_keep=self._max_to_keep,
            keep_checkpoint_every_n_hours=self._keep_hours,
            save_relative_paths=True,
        )

    def _before_train(self) -> None:
        time = f"{datetime.now():%m%d-%H%M%S}"
        self.saver.export_meta_graph(os.path.join(str(self.checkpoint_dir), f"graph-{time}.meta"))

    def _trigger(self) -> None:
        step, session = self.global_step, self.trainer.sess
        path = self.saver.save(session, self.path, global_step=step, write_meta_graph=False)
        logger.info("Model saved to %s.", path)


class MinSaver(Callback):
    """Copies the newest checkpoint of a `ModelSaver` when a statistic reaches a new minimum.

    Args:
        monitor_stat: the statistic.
        reverse: whether to use the maximum instead.
        filename: the name of the copy; None: `min-<statistic>` or `max-<statistic>`.
        checkpoint_dir: the directory; None: the directory of the logger.
    """

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool = False,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
    ) -> None:
        self.monitor_stat, self.reverse, self.filename = monitor_stat, reverse, filename
        self.best: tuple[int, float] | None = None
        self.checkpoint_dir = checkpoint_dir or str(logger.directory())

    def _trigger(self) -> None:
        if self.monitor_stat not in self.trainer.monitors:
            return
        step, value = self.trainer.monitors.get_history(self.monitor_stat)[-1]
        if self.best is None or (value > self.best[1] if self.reverse else value < self.best[1]):
            self.best = (step, value)
            self._save(step, value)

    def _save(self, step: int, value: float) -> None:
        found = tf.train.get_checkpoint_state(self.checkpoint_dir)
        if found is None:
            raise RuntimeError("[MinSaver] Cannot find a checkpoint state. Do you forget to use ModelSaver?")
        path = found.model_checkpoint_path
        if not path.endswith(f"-{step}"):
            best = f"The best '{self.monitor_stat}' was at step {step}, and the latest checkpoint is {path}"
            logger.warn("[MinSaver] %s: nothing is copied. Put a ModelSaver before this callback.", best)
            return
        kind = "max" if self.reverse else "min"
        name = os.path.join(self.checkpoint_dir, self.filename or f"{kind}-{self.monitor_stat}")
        for file in tf.gfile.Glob(f"{path}.*"):
            tf.gfile.Copy(file, file.replace(path, name), overwrite=True)
        statistic = f"{kind}imum {self.monitor_stat}={value:.5g}"
        logger.info("Model at global_step=%d with %s saved.", step, statistic)


class MaxSaver(MinSaver):
    """Copies the newest checkpoint when a statistic reaches a new maximum; see `MinSaver`."""

    def __init__(
        self, monitor_stat: str, filename: str | None = None, checkpoint_dir: str | None = None
    ) -> None:
        super().__init__(monitor_stat, True, filename, checkpoint_dir)
