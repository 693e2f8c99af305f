"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._errors import ModelError
from ._tower import Tower
from ._tower_trainer import TowerTrainer

__all__ = ["QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer", "compute_gradients"]

_log = logging.getLogger("towerpack_trainers")


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
        tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        optimizer = self.config.make_optimizer()
        return optimizer.apply_gradients(compute_gradients(tower, optimizer), name="train_op")


# Tensorpack's name for the trainer that prefetches; here, every trainer does.
QueueInputTrainer = SimpleTrainer


def compute_gradients(tower: Tower, optimizer: tf.train.Optimizer) -> list[tuple[Any, tf.Variable]]:
    """Gradients of a tower's cost by its trainable variables.

    Args:
        tower: a training tower; its output is the cost.
        optimizer: computes them.

    Returns:
        Pairs of gradient and variable. Variables the cost does not depend on are left out, with a warning.

    Raises:
        ModelError: there is no cost, it is no scalar, or it depends on no trainable variable.
    """
    cost = _check_cost(tower.output)
    with _in_scope_of(tower):
        pairs = optimizer.compute_gradients(
            cost, list(tower.trainable_variables), gate_gradients=tf.train.Optimizer.GATE_NONE
        )
    unused = [variable.op.name for gradient, variable in pairs if gradient is None]
    if unused and not tower.context.index:
        _log.warning("The cost does not depend on: %s. They are not trained.", ", ".join(unused))
    used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not used:
        raise ModelError("The cost depends on no trainable variable, so there is nothing to train.")
    # No variable may change while a gradient still reads it. By default TensorFlow lets no gradient go on
    # before all those of the op above are there. Instead, all of them are there before the first update: so
    # they are computed in whatever order finds a core free, and LeNet's step takes a tenth less.
    with _in_scope_of(tower):
        gradients = tf.tuple([gradient for gradient, _ in used])
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, used)]


@contextlib.contextmanager
def _in_scope_of(tower: Tower) -> Iterator[None]:
    with tower.graph.as_default(), tf.name_scope(f"{tower.context.name}/" if tower.context.name else None):
        yield


def _check_cost(cost: Any) -> tf.Tensor:
    if cost is None:
        raise ModelError(
            "build_graph returned None for a training tower; it must return the cost, a scalar tensor. "
            "Is a `return cost` missing?"
        )
    if not tf.is_tensor(cost):
        raise ModelError(
            f"build_graph must return the cost, a scalar tensor; received {cost!r} of type "
            f"{type(cost).__name__}."
        )
    if cost.shape.rank != 0:
        raise ModelError(
            f"build_graph must return a scalar cost; received {cost.name!r} of shape {cost.shape}. "
            "Reduce it, for example by tf.reduce_mean."
        )
    if not cost.dtype.is_floating:
        raise ModelError(f"The cost {cost.name!r} has dtype {cost.dtype.name}; expected a float.")
    return cost
