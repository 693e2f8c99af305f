"""Prediction by one session call, at as little cost as TensorFlow allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable

__all__ = ["Predictor"]


@final
class Predictor:
    """A function from arrays to arrays, in the session of the time when it is called.

    Args:
        get_session: called at each prediction, so that the session may be made later.
        inputs: tensors to feed.
        outputs: tensors to fetch.

    Attributes:
        inputs: as given.
        outputs: as given.

    Raises:
        ValueError: a tensor is twice among the inputs.
    """

    def __init__(
        self,
        get_session: Callable[[], tf.Session],
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
    ) -> None:
        names = [tensor.name for tensor in inputs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"A predictor takes each input once, received {', '.join(twice)} more than once."
            )
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._get_session = get_session
        self._sess: tf.Session = None
        self._kinds = [(tensor.dtype.as_numpy_dtype, tensor.shape) for tensor in inputs]
        # TensorFlow computes no tensor twice in one call, nor one that it is fed.
        fed = {tensor.name: index for index, tensor in enumerate(inputs)}
        self._fetched = {tensor.name: tensor for tensor in outputs if tensor.name not in fed}
        order = [*fed, *self._fetched]
        self._places = [order.index(tensor.name) for tensor in outputs]

    def __call__(self, *arrays: Any) -> list[Any]:
        """Predicts for one batch.

        Args:
            arrays: one per input.

        Returns:
            One array per output.

        Raises:
            TypeError: another number of arrays is given.
            ValueError: an array has a shape that its input does not take.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(tensor.op.name for tensor in self.inputs)
            raise TypeError(
                f"The predictor takes {len(self.inputs)} arrays ({names}), received {len(arrays)}."
            )
        sess = self._get_session()
        if sess is not self._sess:
            fetches = list(self._fetched.values())
            # TensorFlow makes no call that computes nothing.
            self._run = fast_callable(sess, feeds=self.inputs, fetches=fetches) if fetches else _nothing
            self._sess = sess
        values = [self._convert(index, array) for index, array in enumerate(arrays)]
        found = values + self._run(*values)
        return [found[place] for place in self._places]

    def _convert(self, index: int, value: Any) -> np.ndarray:
        kind, shape = self._kinds[index]
        array = np.asarray(value, kind)
        # Where it is fed, TensorFlow takes any shape.
        if not shape.is_compatible_with(array.shape):
            raise ValueError(
                f"The predictor's input {self.inputs[index].op.name!r} has shape {shape}; received an array "
                f"of shape {array.shape}."
            )
        return array


def _nothing(*values: Any) -> list[Any]:
    return []
