"""Gradients packed into few tensors, for exchanges with a high cost per tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from ..towers._tensor_buckets import Buckets

__all__ = ["GradientPacker"]


@final
class GradientPacker:
    """Packs a list of gradients into few flat tensors, and unpacks them in the same order.

    A flat tensor holds neighbours of one dtype, so it is ready as soon as they are, while others are still
    being computed.

    Args:
        shapes: the gradients' shapes, fully defined.
        dtypes: their dtypes.
        count: the approximate number of flat tensors for each dtype.

    Raises:
        ValueError: a shape is not fully defined, or `count` is below 1.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_trainers.replicate import GradientPacker
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     gradients = [tf.ones([2, 2]), tf.zeros([3]), tf.ones([])]
        ...     packer = GradientPacker.like(gradients, count=2)
        ...     packed = packer.pack(gradients)
        ...     [tensor.shape.as_list() for tensor in packed]
        ...     [tensor.tolist() for tensor in session.run(packer.unpack(packed))]
        [[4], [4]]
        [[[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0, 0.0], 1.0]
    """

    def __init__(self, shapes: Sequence[tf.TensorShape], dtypes: Sequence[tf.DType], count: int = 1) -> None:
        for index, shape in enumerate(shapes):
            if not shape.is_fully_defined():
                raise ValueError(
                    f"GradientPacker cannot pack gradient {index}: its shape {shape} is unknown."
                )
        self._buckets = Buckets.by_count(shapes, dtypes, count)

    @classmethod
    def like(cls, gradients: Sequence[tf.Tensor], count: int = 1) -> GradientPacker:
        """Makes a packer for gradients of these shapes and dtypes."""
        return cls([gradient.shape for gradient in gradients], [g.dtype for g in gradients], count)

    def pack(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Joins gradients into flat tensors."""
        return self._buckets.pack(gradients)

    def unpack(self, packed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Splits flat tensors into gradients, in the original order."""
        return self._buckets.unpack(packed)
