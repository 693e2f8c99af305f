"""A policy model that learns from trajectories: its inputs, and its cost."""

from __future__ import annotations

from typing import NamedTuple, final

import tensorflow.compat.v1 as tf

from ..._errors import ConfigError
from ...towers._model_desc import ModelDesc
from .._objectives import PolicyObjective
from .._policy_model import PolicyModel
from .._spaces import action_spec

__all__ = ["TrajectoryModel", "TrajectoryTensors"]


@final
class TrajectoryTensors(NamedTuple):
    """Trajectories of the same number of steps, as the inputs of the graph.

    Attributes:
        observation: [batch * (steps + 1), ...], one trajectory after the other, the same input as for acting.
        action: [batch, steps, ...].
        behaviour_log_probability: float32 [batch, steps], the log-probability of the action under the policy
            that took it.
        reward: float32 [batch, steps].
        terminated: bool [batch, steps], whether the step terminates the episode.
        valid: bool [batch, steps]; False for a step that only reset its environment.
    """

    observation: tf.Tensor
    action: tf.Tensor
    behaviour_log_probability: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    valid: tf.Tensor


@final
class TrajectoryModel(ModelDesc):
    """A policy model that learns from trajectories: its training towers have a cost, the others act.

    Args:
        policy: the model to train.
        objective: makes the cost.
        steps: the number of steps in a trajectory.

    Raises:
        ConfigError: the model is not a `PolicyModel`.
    """

    data_from_trainer = True

    def __init__(self, policy: ModelDesc | None, objective: PolicyObjective, steps: int) -> None:
        if not isinstance(policy, PolicyModel):
            raise ConfigError(f"BatchA3CTrainer needs TrainConfig(model=a PolicyModel); received {policy!r}.")
        self._policy, self._objective, self._steps = policy, objective, steps

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the components of a batch of trajectories."""
        [observation] = self._policy.inputs()
        action = action_spec(self._policy.action_space)
        kinds = {
            "behaviour_log_probability": tf.float32,
            "reward": tf.float32,
            "terminated": tf.bool,
            "valid": tf.bool,
        }
        return [
            observation,
            tf.TensorSpec([None, self._steps, *action.shape], action.dtype, "action"),
            *(tf.TensorSpec([None, self._steps], kind, name) for name, kind in kinds.items()),
        ]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            # Each batch of predictions draws different random numbers, in the order of execution.
            self._policy.add_acting(inputs[0], tf.random.uniform([2], maxval=tf.int64.max, dtype=tf.int64))
            return None
        batch = TrajectoryTensors(*inputs)
        distribution, value = self._policy.checked_policy(batch.observation)
        return self._objective.cost(distribution, value, batch)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the policy's optimizer."""
        return self._policy.optimizer()
