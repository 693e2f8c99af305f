"""Input of zeros, to measure the cost of the real input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from .._errors import SpecError
from .._source import InputSource

__all__ = ["DummyConstantInput"]


@final
class DummyConstantInput(InputSource):
    """Gives zeros on the tower's device, infinitely.

    Use it to find out whether the input is the bottleneck: a training that is not faster with zeros does not
    wait for data.

    Args:
        shapes: the full shape of each component, in the order of the specs; by default the shapes of the
            specs, which must then be fully known.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     source = DummyConstantInput([(2, 3)])
        ...     source.setup([tf.TensorSpec([None, 3], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     print(session.run(x).shape)
        (2, 3)
    """

    def __init__(self, shapes: Sequence[Sequence[int]] | None = None) -> None:
        self._shapes = shapes

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        declared = [spec.shape for spec in specs]
        given = declared if self._shapes is None else [tf.TensorShape(shape) for shape in self._shapes]
        if len(given) != len(specs):
            raise SpecError(f"Received {len(given)} shapes for {len(specs)} specs; give one for each.")
        for spec, shape in zip(specs, given):
            if not shape.is_fully_defined():
                raise SpecError(
                    f"The shape {shape} of {spec.name!r} is not fully known. Give the shapes to use: "
                    "DummyConstantInput(shapes=[...])."
                )
            if not spec.shape.is_compatible_with(shape):
                raise SpecError(f"The shape {shape} for {spec.name!r} contradicts the declared {spec.shape}.")
        self._full_shapes = given

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.name_scope("DummyConstantInput"):
            return [_zeros(spec, shape) for spec, shape in zip(specs, self._full_shapes)]


def _zeros(spec: tf.TensorSpec, shape: tf.TensorShape) -> tf.Tensor:
    zero = "" if spec.dtype == tf.string else False if spec.dtype == tf.bool else 0
    constant = tf.constant(zero, spec.dtype, shape, spec.name + "_zeros")
    # TensorFlow would constant-fold the start of the model over a constant, but not over a feedable tensor.
    return tf.placeholder_with_default(constant, shape, spec.name)
