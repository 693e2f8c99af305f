"""Trainers that place their training towers with a builder."""

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
    """Makes the training step with a builder: one tower, or one on each of several devices.

    A subclass for several devices sets `devices` before this class's `__init__`. Every tower takes its own
    datapoint from the input; no datapoint is split.

    In addition to the hooks of `TowerTrainer`, a subclass may override these two, called within `__init__`:

    - `_make_builder()` returns the builder that places the towers; by default, on one device. It may use the
      seed of this process, `processes.local_seed(seed)`, and the exchange `processes.gradient_exchange`.
    - `_build_train_op()` builds the training towers and returns the op of one step, by default with that
      builder. It may use `tower_func`, `source`, `training_context` and `config.make_optimizer`.

    Attributes:
        builder: the builder that placed the towers; None if `_build_train_op` did not use one.
    """

    builder: Builder | None = None

    def _setup(self) -> None:
        super()._setup()
        towers = len(self.devices)
        if towers > 1:
            self._check_towers_can_share_input(towers)
        self.train_op = self._build_train_op()
        if towers > 1:
            message = "%d towers, one batch for each: one step trains on %d datapoints."
            _log.info(message, towers, towers * self._train_op.takes)

    def _check_towers_can_share_input(self, towers: int) -> None:
        assert self.source is not None
        if not self.source.feed_free:
            raise ConfigError(
                f"{type(self.source).__name__} feeds one datapoint in each run, so all {towers} towers would "
                "train on the same one. Use QueueInput or another source without feeding; a DataFlow given "
                "as dataflow= gets one."
            )

    def _make_builder(self) -> Builder:
        return SingleDeviceBuilder(self.processes.local_seed(self.seed), self.processes.gradient_exchange)

    def _build_train_op(self) -> tf.Operation:
        """Builds the training towers and returns the op of one step."""
        assert self.source is not None
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)

    def _own_callbacks(self) -> list[Callback]:
        callbacks = [] if self.builder is None else self.builder.callbacks()
        return [*super()._own_callbacks(), *callbacks]
