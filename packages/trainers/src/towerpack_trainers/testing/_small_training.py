"""A model and data that train in milliseconds, and show the datapoints that a training took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm, Dropout, FullyConnected

from ..towers._model_desc import ModelDesc

__all__ = ["SmallFlow", "SmallModel"]

_DATAPOINTS, _BATCH = 12, 4


@final
class SmallModel(ModelDesc):
    """Fits the sum of three numbers, with dropout and a batch normalisation.

    The variable `visits` has one element for each example of `SmallFlow`. If a training has used some
    examples equally often, their elements are equal: the cost contains the mean of a batch's elements, and
    the optimizer is plain gradient descent.
    """

    def inputs(self) -> Sequence[tf.TensorSpec]:
        return [
            tf.TensorSpec([None, 3], tf.float32, "x"),
            tf.TensorSpec([None], tf.float32, "y"),
            tf.TensorSpec([None], tf.int32, "number"),
        ]

    def build_graph(self, x: tf.Tensor, y: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        hidden = FullyConnected("hidden", x, 8, activation=tf.nn.relu)
        hidden = Dropout("dropout", BatchNorm("bn", hidden), rate=0.25)
        fitted = FullyConnected("fitted", hidden, 1)[:, 0]
        visits = tf.get_variable("visits", [_DATAPOINTS * _BATCH], initializer=tf.zeros_initializer())
        error = tf.reduce_mean(tf.square(fitted - y), name="error")
        return tf.add(error, tf.reduce_mean(tf.gather(visits, number)), name="cost")

    def optimizer(self) -> tf.train.Optimizer:
        return tf.train.GradientDescentOptimizer(0.125)


@final
class SmallFlow:
    """Twelve batches of four examples for `SmallModel`, in a different order in each pass; it has a position.

    Args:
        error: raised instead of a datapoint.
        error_at: the index, in the first pass, of the datapoint that `error` replaces.
    """

    def __init__(self, error: BaseException | None = None, error_at: int = 5) -> None:
        x = np.random.default_rng(0).normal(size=(_DATAPOINTS, _BATCH, 3)).astype(np.float32)
        numbers = np.arange(_DATAPOINTS * _BATCH, dtype=np.int32).reshape(_DATAPOINTS, _BATCH)
        self._datapoints = list(zip(x, x.sum(-1), numbers))
        self._error, self._error_at = error, error_at
        self._seed = 0
        self._pass_number, self._index = 0, 0
        self._pass_is_new = True

    def __len__(self) -> int:
        return len(self._datapoints)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        if not self._pass_is_new:
            self._pass_number, self._index = self._pass_number + 1, 0
        self._pass_is_new = False
        return self._read(np.random.default_rng([self._seed, self._pass_number]).permutation(len(self)))

    def _read(self, order: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        while self._index < len(self):
            if self._error is not None and self._index == self._error_at:
                raise self._error
            self._index += 1
            yield self._datapoints[order[self._index - 1]]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pass_is_new = True  # a copy of a flow continues from the position of the original

    def reset_state(self) -> None:
        """Does nothing: there is nothing to open."""

    def seed(self, seed: int) -> None:
        """Selects the orders of all passes."""
        self._seed = seed

    def state_dict(self) -> dict[str, int]:
        """Returns the position after the last datapoint read, and the seed."""
        return {"seed": self._seed, "pass": self._pass_number, "index": self._index}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Sets the start of the next pass."""
        self._seed, self._pass_number, self._index = state["seed"], state["pass"], state["index"]
        self._pass_is_new = True
