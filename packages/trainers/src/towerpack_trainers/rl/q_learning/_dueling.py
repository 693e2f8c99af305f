"""The dueling head of networks that estimate the values of actions."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected

from ..._argument_checks import at_least
from ..._errors import ModelError

__all__ = ["dueling"]


def dueling(features: tf.Tensor, n: int) -> tf.Tensor:
    """Returns action values as the sum of the state's value and each action's advantage over the mean.

    It adds two layers to the graph, "state_value" and "advantage".

    Args:
        features: float [batch, units], the network's features of the observation.
        n: the number of actions.

    Returns:
        float [batch, n].

    Raises:
        ModelError: the features have another rank.

    References:
        Wang et al., "Dueling Network Architectures for Deep Reinforcement Learning" (2016),
        arXiv:1511.06581, equation 9.
    """
    rank: Any = features.shape.rank
    if rank != 2:
        raise ModelError(
            f"dueling(features, n) takes features of shape [batch, units]; received {features.shape}. "
            "Flatten them first."
        )
    value = FullyConnected("state_value", features, 1)
    advantage = FullyConnected("advantage", features, at_least("dueling", "n", n))
    return value + advantage - tf.reduce_mean(advantage, 1, keepdims=True)
