"""A policy model with its training objective: the batch of a rollout, and its cost."""

from __future__ import annotations

from typing import NamedTuple, final

import tensorflow.compat.v1 as tf

from .._errors import ConfigError
from ..towers._model_desc import ModelDesc
from ._objectives import PolicyObjective
from ._policy_model import PolicyModel
from ._spaces import action_spec

__all__ = ["OnPolicyModel", "RolloutTensors"]


@final
class RolloutTensors(NamedTuple):
    """A batch of steps of a rollout, as the inputs of the graph; the first axis of all is the batch.

    Attributes:
        observation: the observation before the step.
        action: the action of the step.
        old_value: float32, the value estimated at that time.
        old_log_probability: float32, the log-probability of the action at that time.
        advantage: float32.
        value_target: float32.
    """

    observation: tf.Tensor
    action: tf.Tensor
    old_value: tf.Tensor
    old_log_probability: tf.Tensor
    advantage: tf.Tensor
    value_target: tf.Tensor


@final
class OnPolicyModel(ModelDesc):
    """A policy model that learns from rollouts: its training towers have a cost, the others act.

    Args:
        policy: the model to train.
        objective: makes the cost.

    Raises:
        ConfigError: the model is not a `PolicyModel`.
    """

    data_from_trainer = True

    def __init__(self, policy: ModelDesc | None, objective: PolicyObjective) -> None:
        if not isinstance(policy, PolicyModel):
            raise ConfigError(
                f"Agents of this kind need TrainConfig(model=a PolicyModel); received {policy!r}."
            )
        self._policy, self._objective = policy, objective

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the components of a rollout's batch."""
        [observation] = self._policy.inputs()
        action = action_spec(self._policy.action_space)
        numbers = RolloutTensors._fields[2:]
        return [
            observation,
            tf.TensorSpec([None, *action.shape], action.dtype, "action"),
            *(tf.TensorSpec([None], tf.float32, name) for name in numbers),
        ]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            self._policy.build_graph(inputs[0])
            return None
        batch = RolloutTensors(*inputs)
        distribution, value = self._policy.checked_policy(batch.observation)
        return self._objective.cost(distribution, value, batch)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the policy's optimizer."""
        return self._policy.optimizer()
