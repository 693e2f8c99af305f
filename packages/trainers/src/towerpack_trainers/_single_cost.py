"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from ._builder_trainer import BuilderTrainer

__all__ = ["NoOpTrainer", "QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer"]


class SingleCostTrainer(BuilderTrainer):
    """Makes the training step of `ModelDesc.build_graph` and the optimizer.

    See `BuilderTrainer` for what subclasses override.
    """

    def _setup(self) -> None:
        super()._setup()
        cost = self.tower_func.training[0].output if self.tower_func.training else None
        self._main_cost = cost if isinstance(cost, tf.Tensor) else None

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors, self.config.make_optimizer)


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
