"""The supported spaces of observations and actions, recognised by the attributes of gymnasium's spaces."""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import ConfigError, ModelError

__all__ = ["ActionSpec", "action_spec", "observation_spec"]

_ADVICE = "Wrap the environments, for example with gymnasium's FlattenObservation or TransformObservation."


@final
@attrs.frozen
class ActionSpec:
    """One action, as represented in the graph.

    Attributes:
        dtype: int64 for one of several choices, else float32.
        shape: the shape of one action; () for one of several choices.
        space_dtype: the dtype of the environment's actions.
        choices: the number of choices; None for continuous actions.
        start: the number of the first choice.
        low, high: finite bounds of each value, of `shape` and of `space_dtype`; None for choices.
    """

    dtype: tf.DType
    shape: tuple[int, ...]
    space_dtype: np.dtype[Any]
    choices: int | None = None
    start: int = 0
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def for_environment(self, actions: np.ndarray) -> np.ndarray:
        """Converts actions of the graph for the environment: shifted, or clipped to the bounds.

        Raises:
            ModelError: a value is NaN.
        """
        if self.choices is not None:
            return np.asarray(actions + self.start if self.start else actions, self.space_dtype)
        if np.isnan(actions).any():
            raise ModelError(
                "The policy returned actions that are not numbers (NaN), which no environment accepts. Its "
                "weights have become NaN; lower the learning rate, or clip gradients with GlobalNormClip."
            )
        with np.errstate(over="ignore"):  # values beyond the largest float16 are clipped to the bounds
            numbers = np.asarray(actions, self.space_dtype)
        # Bounds rounded to another dtype could leave an action outside of the space.
        clipped: np.ndarray = np.clip(numbers, self.low, self.high)
        return clipped


def observation_spec(space: Any) -> tf.TensorSpec:
    """Returns the spec of a batch of observations in the graph.

    Args:
        space: the space of one observation: a gymnasium `Box`, or any object with `shape` and a numeric
            `dtype`.

    Raises:
        ConfigError: the space is a composite, or does not contain arrays.
    """
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "buif":
        raise ConfigError(
            f"Observations of an agent must be arrays of numbers, of a space such as Box; received "
            f"{space!r}. {_ADVICE}"
        )
    return tf.TensorSpec([None, *shape], tf.as_dtype(np.dtype(dtype)), "observation")


def action_spec(space: Any) -> ActionSpec:
    """Returns the spec of an action in the graph.

    Args:
        space: the space of one action: a gymnasium `Discrete`, or a `Box` of floats.

    Raises:
        ConfigError: it is neither.
    """
    dtype = getattr(space, "dtype", None)
    if getattr(space, "n", None) is not None and np.ndim(space.n) == 0 and np.dtype(dtype).kind in "iu":
        start = int(getattr(space, "start", 0))
        return ActionSpec(tf.int64, (), np.dtype(dtype), int(space.n), start)
    if getattr(space, "low", None) is not None and np.dtype(dtype).kind == "f":
        finite = np.finfo(dtype)
        low, high = np.maximum(space.low, finite.min), np.minimum(space.high, finite.max)
        return ActionSpec(tf.float32, tuple(space.shape), np.dtype(dtype), low=low, high=high)
    raise ConfigError(
        f"Actions of an agent must be of a Discrete space or of a Box of floats; received {space!r}. "
        "Wrap the environments, for example with gymnasium's TransformAction."
    )
