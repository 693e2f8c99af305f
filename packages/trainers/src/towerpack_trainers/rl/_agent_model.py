"""The base class of agents: their observation and action spaces."""

from __future__ import annotations

from typing import Any, Self

import tensorflow.compat.v1 as tf

from ..towers._model_desc import ModelDesc
from ._spaces import action_spec, observation_spec

__all__ = ["AgentModel"]


class AgentModel(ModelDesc):
    """Describes an agent. A subclass defines the networks.

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete` or a `Box` of floats.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents do not support such a space.
    """

    data_from_trainer = True

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._observation = observation_spec(observation_space)
        self._action = action_spec(action_space)

    @classmethod
    def of(cls, envs: Any, *arguments: Any, **named: Any) -> Self:
        """Makes the model for vector environments, or for a single one.

        Args:
            envs: an object with `single_observation_space` and `single_action_space`, or with
                `observation_space` and `action_space`.
            arguments, named: further arguments of the class.
        """
        prefix = "single_" if hasattr(envs, "single_action_space") else ""
        spaces = (getattr(envs, f"{prefix}{kind}_space") for kind in ("observation", "action"))
        return cls(*spaces, *arguments, **named)

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the only input of a predictor."""
        return [self._observation]
