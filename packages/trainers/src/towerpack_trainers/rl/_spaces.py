"""Which spaces of observations and actions an agent can have, by what spaces of gymnasium look like."""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import ConfigError

__all__ = ["ActionSpec", "action_spec", "observation_spec"]

_ADVICE = "Wrap the environments, for example by gymnasium's FlattenObservation or TransformObservation."


@final
@attrs.frozen
class ActionSpec:
    """One action, as the graph sees it.

    Attributes:
        dtype: int64 for one of several choices, else float32.
        shape: of one action; () for one of several choices.
        choices: how many choices there are; None for actions that are numbers.
        start: the number of the first choice.
        low, high: bounds of each number, float32 arrays of `shape`; None for choices.
    """

    dtype: tf.DType
    shape: tuple[int, ...]
    choices: int | None = None
    start: int = 0
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def for_environment(self, actions: np.ndarray) -> np.ndarray:
        """Returns actions of the graph as the environment takes them: shifted, or clipped to the bounds."""
        if self.choices is not None:
            return actions + self.start if self.start else actions
        clipped: np.ndarray = np.clip(actions, self.low, self.high)
        return clipped


def observation_spec(space: Any) -> tf.TensorSpec:
    """Returns what a batch of observations is in the graph.

    Args:
        space: of one observation: a gymnasium `Box`, or any object with `shape` and a numeric `dtype`.

    Raises:
        ConfigError: the space is one of several parts, or of no arrays.
    """
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "buif":
        raise ConfigError(
            f"An agent takes observations that are arrays of numbers, of a space such as Box; received "
            f"{space!r}. {_ADVICE}"
        )
    return tf.TensorSpec([None, *shape], tf.as_dtype(np.dtype(dtype)), "observation")


def action_spec(space: Any) -> ActionSpec:
    """Returns what an action is in the graph.

    Args:
        space: of one action: a gymnasium `Discrete`, or a `Box` of floats.

    Raises:
        ConfigError: it is neither.
    """
    dtype = getattr(space, "dtype", None)
    if getattr(space, "n", None) is not None and np.ndim(space.n) == 0 and np.dtype(dtype).kind in "iu":
        return ActionSpec(tf.int64, (), int(space.n), int(getattr(space, "start", 0)))
    if getattr(space, "low", None) is not None and np.dtype(dtype).kind == "f":
        low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
        return ActionSpec(tf.float32, tuple(space.shape), None, 0, low, high)
    raise ConfigError(
        f"An agent has actions of a Discrete space or of a Box of floats; received {space!r}. "
        "Wrap the environments, for example by gymnasium's TransformAction."
    )
