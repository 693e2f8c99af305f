"""Trainers of models with one cost and one optimizer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ._errors import ModelError
from ._tower_trainer import TowerTrainer
from .towers._tower import Tower

__all__ = ["QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer", "all_before_any", "compute_gradients"]

_log = logging.getLogger("towerpack_trainers")


class SingleCostTrainer(TowerTrainer):
    """Makes the training step of `ModelDesc.build_graph` and the optimizer.

    Beside the hooks of `TowerTrainer`, subclasses override one of these:

    - `_build_train_op()` builds the training towers, and returns the op of one step. It is called within
      `__init__`; `tower_func`, `source`, `training_context` and `config.make_optimizer` are there.
    """

    def _setup(self) -> None:
        super()._setup()
        self.train_op = self._build_train_op()

    def _build_train_op(self) -> tf.Operation:
        assert self.source is not None
        tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        optimizer = self.config.make_optimizer()
        exchange = self.processes.gradient_exchange or all_before_any
        return optimizer.apply_gradients(exchange(compute_gradients(tower, optimizer)), name="train_op")


@final
class SimpleTrainer(SingleCostTrainer):
    """Trains on one device.

    Example:
        ```python
        SimpleTrainer(TrainConfig(model=LeNet(), dataflow=flow, max_epoch=10)).train()
        ```
    """


# Tensorpack's name for the trainer that prefetches; here, every trainer does.
QueueInputTrainer = SimpleTrainer


def compute_gradients(tower: Tower, optimizer: tf.train.Optimizer) -> list[tuple[Any, tf.Variable]]:
    """Gradients of a tower's cost by its trainable variables.

    Args:
        tower: a training tower; its output is the cost.
        optimizer: computes them.

    Returns:
        Pairs of gradient and variable. Variables the cost does not depend on are left out, with a warning.
        They must go through `all_before_any`, or an exchange that does the same, on their way to updates.

    Raises:
        ModelError: there is no cost, it is no scalar, or it depends on no trainable variable.
    """
    cost = _check_cost(tower.output)
    # By default TensorFlow lets no gradient go on before all those of the op above are there.
    gating = tf.train.Optimizer.GATE_NONE
    with tower.graph.as_default(), tf.name_scope(f"{tower.context.name}/" if tower.context.name else None):
        pairs = optimizer.compute_gradients(cost, list(tower.trainable_variables), gate_gradients=gating)
    unused = [variable.op.name for gradient, variable in pairs if gradient is None]
    if unused and not tower.context.index:
        _log.warning("The cost does not depend on: %s. They are not trained.", ", ".join(unused))
    used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not used:
        raise ModelError("The cost depends on no trainable variable, so there is nothing to train.")
    return used


def all_before_any(pairs: Sequence[tuple[Any, tf.Variable]]) -> list[tuple[Any, tf.Variable]]:
    """Gradients and variables as they are, but none of the gradients is there before all are.

    No variable may change while a gradient still reads it. With this between gradients and updates, gradients
    are computed in whatever order finds a core free, and LeNet's step takes a tenth less than by default.
    """
    gradients = tf.tuple([gradient for gradient, _ in pairs])
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)]


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
