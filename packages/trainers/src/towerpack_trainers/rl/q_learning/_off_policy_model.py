"""A model of action values with its training objective: a memory's batch, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary
from towerpack_layers import freeze_variables

from ..._errors import ConfigError
from ...towers._model_desc import ModelDesc
from ._q_model import QModel
from ._q_objectives import QObjective, huber

__all__ = ["ABSOLUTE_ERROR", "TARGET_SCOPE", "OffPolicyModel", "TransitionTensors"]

TARGET_SCOPE = "target_network"
"""The variable scope of the target network."""

ABSOLUTE_ERROR = "absolute_error"
"""The name of the absolute errors, float32 [batch]."""


@final
class TransitionTensors(NamedTuple):
    """A batch of transitions, as the inputs of the graph; the first axis of all is the batch.

    Attributes:
        observation: the observation before the first step.
        action: int64, the action of the first step.
        reward: float32, the discounted sum over all steps.
        next_observation: the observation after the last step.
        discount: float32, the discount of its value.
        weight: float32, the weight of the error.
    """

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    next_observation: tf.Tensor
    discount: tf.Tensor
    weight: tf.Tensor


@final
class OffPolicyModel(ModelDesc):
    """A model that learns from transitions: its training towers have a cost, the others act.

    Args:
        values: the model to train.
        objective: makes the targets.

    Raises:
        ConfigError: the model is not a `QModel`, or `objective` is not a `QObjective`.
    """

    data_from_trainer = True

    def __init__(self, values: ModelDesc | None, objective: QObjective) -> None:
        if not isinstance(values, QModel):
            raise ConfigError(f"Agents of this kind need TrainConfig(model=a QModel); received {values!r}.")
        if not isinstance(objective, QObjective):
            raise ConfigError(f"target={objective!r}: expected a QObjective, such as DoubleQ() or MaxQ().")
        self._values, self._objective = values, objective

    def inputs(self) -> Sequence[tf.TensorSpec]:
        """Returns the components of a batch."""
        [observation] = self._values.inputs()
        after = tf.TensorSpec(observation.shape, observation.dtype, "next_observation")
        reward, discount, weight = (
            tf.TensorSpec([None], tf.float32, name) for name in ("reward", "discount", "weight")
        )
        return [observation, tf.TensorSpec([None], tf.int64, "action"), reward, after, discount, weight]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            self._values.build_graph(inputs[0])
            return None
        return self._cost(TransitionTensors(*inputs))

    def _cost(self, batch: TransitionTensors) -> tf.Tensor:
        values = self._values.checked_q_values(batch.observation)
        value = tf.gather(values, batch.action, batch_dims=1)
        target = tf.stop_gradient(batch.reward + batch.discount * self._next_value(batch.next_observation))
        error = value - tf.identity(target, "value_target")
        tf.abs(error, name=ABSOLUTE_ERROR)
        mean_value = tf.reduce_mean(value, name="mean_value")
        cost = tf.reduce_mean(batch.weight * huber(error, self._objective.delta), name="cost")
        add_moving_summary(cost, mean_value)
        return cost

    def _next_value(self, observation: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope(TARGET_SCOPE), freeze_variables(stop_gradient=False, skip_collection=True):
            target = self._values.checked_q_values(observation)

        def online() -> tf.Tensor:
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                return self._values.checked_q_values(observation)

        return self._objective.next_value(online, target)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the optimizer of the action values."""
        return self._values.optimizer()
