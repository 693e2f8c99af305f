"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback

from ._errors import ConfigError
from ._tower_trainer import TowerTrainer
from .towers._builder import Builder
from .towers._single_device_builder import SingleDeviceBuilder

__all__ = ["NoOpTrainer", "QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer"]

_log = logging.getLogger("towerpack_trainers")


class SingleCostTrainer(TowerTrainer):
    """Makes the training step of `ModelDesc.build_graph` and the optimizer.

    A subclass for several devices sets `devices` before this class's `__init__`. Every tower takes a
    datapoint of its own from the input; nothing is split.

    Beside the hooks of `TowerTrainer`, subclasses override one of these; both are called within `__init__`:

    - `_make_builder()` returns what places the towers: by default, on one device. It gets the random seed of
      this process, `processes.local_seed(seed)`, and the exchange with others, `processes.gradient_exchange`.
    - `_build_train_op()` builds the training towers, by default by that builder, and returns the op of one
      step. `tower_func`, `source`, `training_context` and `config.make_optimizer` are there for that.

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
        cost = self.tower_func.training[0].output if self.tower_func.training else None
        self._main_cost = cost if isinstance(cost, tf.Tensor) else None
        if towers > 1:
            message = "%d towers, each with a batch of its own: one step trains on %d datapoints."
            _log.info(message, towers, towers)

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
        assert self.source is not None
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)

    def _own_callbacks(self) -> list[Callback]:
        callbacks = [] if self.builder is None else self.builder.callbacks()
        return [*super()._own_callbacks(), *callbacks]


@final
class SimpleTrainer(SingleCostTrainer):
    """Trains on one device.

    Example:
        ```python
        SimpleTrainer(TrainConfig(model=LeNet(), dataflow=flow, max_epoch=10)).train()
        ```
    """


@final
class NoOpTrainer(SingleCostTrainer):
    """Builds the model, then runs epochs of empty steps, so that only the callbacks do something.

    Variables keep the values they begin with, or are restored to. Steps are counted. No datapoint is taken
    unless a callback fetches what depends on one (as `MovingAverageSummary`, one of the default callbacks,
    does for a model that calls `add_moving_summary`).

    Example: evaluate a trained model with the callbacks of its training.
        ```python
        NoOpTrainer(TrainConfig(
            model=LeNet(), dataflow=train_flow, session_init=SmartInit("train_log/lenet/model-9000"),
            callbacks=[InferenceRunner(test_flow, [ScalarStats("accuracy")])], extra_callbacks=[],
            steps_per_epoch=1, max_epoch=1,
        )).train()
        ```
    """

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        return tf.no_op(name="train_op")

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return ()  # no step waits for them, and measuring that would take datapoints


# Tensorpack's name for the trainer that prefetches; here, every trainer does.
QueueInputTrainer = SimpleTrainer
