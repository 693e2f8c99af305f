"""Gradients packed into few tensors, for exchanges whose cost is mostly per tensor."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

__all__ = ["GradientPacker", "plan_buckets"]


def plan_buckets(sizes: Sequence[int], count: int) -> list[range]:
    """Divides a row of things into at most `count` stretches of about equal size, without reordering.

    Args:
        sizes: size of each thing.
        count: how many stretches there may be, at least 1.

    Returns:
        Stretches of indices; none is empty.

    Raises:
        ValueError: `count` is below 1.

    Example:
        >>> from towerpack_trainers.replicate import plan_buckets
        >>> plan_buckets([5, 1, 1, 3, 4], 2)
        [range(0, 3), range(3, 5)]
    """
    if count < 1:
        raise ValueError(f"plan_buckets(count={count}): expected at least 1.")
    buckets: list[range] = []
    start, filled, total = 0, 0, sum(sizes)
    for index, size in enumerate(sizes):
        filled += size
        # Ended where the sum has reached the stretch's fair share of the whole.
        if filled * count >= total * (len(buckets) + 1) and len(buckets) < count - 1:
            buckets.append(range(start, index + 1))
            start = index + 1
    return [*buckets, range(start, len(sizes))] if start < len(sizes) else buckets


@attrs.frozen
class _Bucket:
    indices: tuple[int, ...]
    shapes: tuple[tf.TensorShape, ...]

    @property
    def sizes(self) -> list[int]:
        return [shape.num_elements() or 0 for shape in self.shapes]


@final
class GradientPacker:
    """Packs a row of gradients into few flat tensors and back, each gradient where it was.

    A flat tensor holds neighbours of one dtype, so it is ready as soon as these are, while others are still
    being computed.

    Args:
        shapes: the gradients' shapes, all of them known.
        dtypes: their dtypes.
        count: about how many flat tensors to make of each dtype.

    Raises:
        ValueError: a shape is not known, or `count` is below 1.

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
                    f"GradientPacker cannot pack gradient {index}: its shape {shape} is not known."
                )
        self._length = len(shapes)
        self._buckets: list[_Bucket] = []
        for dtype in dict.fromkeys(dtypes):
            mine = [index for index, other in enumerate(dtypes) if other == dtype]
            for stretch in plan_buckets([shapes[index].num_elements() or 0 for index in mine], count):
                indices = tuple(mine[place] for place in stretch)
                self._buckets.append(_Bucket(indices, tuple(shapes[index] for index in indices)))

    @classmethod
    def like(cls, gradients: Sequence[tf.Tensor], count: int = 1) -> GradientPacker:
        """A packer for gradients such as these."""
        return cls([gradient.shape for gradient in gradients], [g.dtype for g in gradients], count)

    def pack(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Joins gradients into flat tensors."""
        flat = tf.constant([-1])  # one for all: a list would become a constant for each gradient
        return [
            tf.concat([tf.reshape(gradients[index], flat) for index in bucket.indices], 0)
            for bucket in self._buckets
        ]

    def unpack(self, packed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Takes flat tensors apart into gradients, in the order they had."""
        gradients: dict[int, tf.Tensor] = {}
        shapes = functools.cache(lambda *sizes: tf.constant(sizes, tf.int32))
        for bucket, flat in zip(self._buckets, packed):
            parts = tf.split(flat, bucket.sizes)
            for index, part, shape in zip(bucket.indices, parts, bucket.shapes):
                gradients[index] = tf.reshape(part, shapes(*shape.as_list()))
        return [gradients[index] for index in range(self._length)]
