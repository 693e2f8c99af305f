"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

from typing import final

import tensorflow.compat.v1 as tf

from ._tower_trainer import TowerTrainer
from .towers._single_device_builder import SingleDeviceBuilder

__all__ = ["QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer"]


class SingleCostTrainer(TowerTrainer):
    """Makes the training step of `ModelDesc.build_graph` and the optimizer; subclasses choose devices."""

    def _setup(self) -> None:
        super()._setup()
        self.train_op = self._build_train_op()

    def _build_train_op(self) -> tf.Operation:
        """Builds the training towers and returns the op of one step."""
        raise NotImplementedError


@final
class SimpleTrainer(SingleCostTrainer):
    """Trains on one device.

    Example:
        ```python
        SimpleTrainer(TrainConfig(model=LeNet(), dataflow=flow, max_epoch=10)).train()
        ```
    """

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        builder = SingleDeviceBuilder(self.seed)
        return builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)


# Tensorpack's name for the trainer that prefetches; here, every trainer does.
QueueInputTrainer = SimpleTrainer
