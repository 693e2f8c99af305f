"""Trainers whose training towers a builder places."""

from __future__ import annotations

import logging

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback

from .._errors import ConfigError
from ..towers._builder import Builder
from ..towers._single_device_builder import SingleDeviceBuilder
from ._tower_trainer import TowerTrainer

__all__ = ["BuilderTrainer"]

_log = logging.getLogger("towerpack_trainers")


class BuilderTrainer(TowerTrainer):
    """Makes the training step of what a builder builds: one tower, or one on each of several devices.

    A subclass for several devices sets `devices` before this class's `__init__`. Every tower takes a
    datapoint of its own from the input; nothing is split.

    Beside the hooks of `TowerTrainer`, subclasses override these; both are called within `__init__`:

    - `_make_builder()` returns what places the towers: by default, on one device. It gets the random seed of
      this process, `processes.local_seed(seed)`, and the exchange with others, `processes.gradient_exchange`.
    - `_build_train_op()` builds the training towers, by default by that builder, with the configuration's
      optimizer, and returns the op of one step. `tower_func`, `source`, `training_context` and
      `config.make_optimizer` are there for that.

    Attributes:
        builder: what has placed the towers; None where `_build_train_op` did without.
    """

    builder: Builder | None = None

    def _setup(self) -> None:
        super()._setup()
        towers = len(self.devices)
        if towers > 1:
            self._check_towers_can_share_input(towers)
        self.train_op = self._build_train_op()
        if towers > 1:
            message = "%d towers, each with a batch of its own: one step trains on %d datapoints."
            _log.info(message, towers, towers * self._train_op.takes)

    def _check_towers_can_share_input(self, towers: int) -> None:
        assert self.source is not None
        if not self.source.feed_free:
            raise ConfigError(
                f"{type(self.source).__name__} feeds one datapoint with each run, which all of the "
                f"{towers} towers would train on. Use QueueInput or another source that needs no "
                "feeding; a DataFlow given as dataflow= gets one."
            )

    def _make_builder(self) -> Builder:
        return SingleDeviceBuilder(self.processes.local_seed(self.seed), self.processes.gradient_exchange)

    def _build_train_op(self) -> tf.Operation:
        """Builds the training towers, and returns the op of one step."""
        assert self.source is not None
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)

    def _own_callbacks(self) -> list[Callback]:
        callbacks = [] if self.builder is None else self.builder.callbacks()
        return [*super()._own_callbacks(), *callbacks]
