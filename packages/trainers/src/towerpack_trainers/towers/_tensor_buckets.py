"""Tensors packed into few: the cost of exchanges is mostly per tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

__all__ = ["Buckets", "plan_buckets", "plan_buckets_by_size"]


def plan_buckets(sizes: Sequence[int], count: int) -> list[range]:
    """Divides a list of items into at most `count` ranges of about equal size, without reordering.

    Args:
        sizes: the size of each item.
        count: the maximum number of ranges, at least 1.

    Returns:
        Ranges of indices; none is empty.

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
        # A range ends when the sum has reached its fair share of the total.
        if filled * count >= total * (len(buckets) + 1) and len(buckets) < count - 1:
            buckets.append(range(start, index + 1))
            start = index + 1
    return [*buckets, range(start, len(sizes))] if start < len(sizes) else buckets


def plan_buckets_by_size(tensors: Sequence[tuple[str, int]], limit: int) -> list[list[int]]:
    """Divides tensors into buckets of one dtype each, in order.

    Args:
        tensors: the name of the dtype and the number of elements of each tensor.
        limit: the number of elements in a bucket; a larger tensor gets a separate one.

    Returns:
        The indices of the tensors of each bucket.
    """
    filling: dict[str, list[int]] = {}
    buckets: list[list[int]] = []
    for place, (dtype, size) in enumerate(tensors):
        members = filling.get(dtype)
        if members is None or sum(tensors[member][1] for member in members) + size > limit:
            filling[dtype] = members = []
            buckets.append(members)
        members.append(place)
    return buckets


@final
@attrs.frozen
class Buckets:
    """A plan to pack a list of tensors into few flat ones, and to unpack them.

    Attributes:
        shapes: the tensors' shapes.
        members: for each bucket, the indices of its tensors.
    """

    shapes: Sequence[tuple[int, ...]]
    members: Sequence[Sequence[int]]

    @classmethod
    def by_size(cls, shapes: Sequence[tf.TensorShape], dtypes: Sequence[tf.DType], limit: int) -> Buckets:
        """Plans buckets of up to `limit` elements, in the order of the tensors."""
        known = [tuple(shape.as_list()) for shape in shapes]
        sizes = [(dtype.name, math.prod(shape)) for dtype, shape in zip(dtypes, known)]
        return cls(known, plan_buckets_by_size(sizes, limit))

    @classmethod
    def by_count(cls, shapes: Sequence[tf.TensorShape], dtypes: Sequence[tf.DType], count: int) -> Buckets:
        """Plans up to `count` buckets of adjacent tensors for each dtype."""
        known = [tuple(shape.as_list()) for shape in shapes]
        members = []
        for dtype in dict.fromkeys(dtypes):
            mine = [place for place, other in enumerate(dtypes) if other == dtype]
            for bucket in plan_buckets([math.prod(known[place]) for place in mine], count):
                members.append([mine[index] for index in bucket])
        return cls(known, members)

    def pack(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Joins tensors into flat ones, one per bucket."""
        flat = tf.constant([-1])  # shared: a list would become a constant for each tensor
        packed = [[tf.reshape(tensors[place], flat) for place in places] for places in self.members]
        return [parts[0] if len(parts) == 1 else tf.concat(parts, 0) for parts in packed]

    def unpack(self, packed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Splits flat tensors into the original tensors, in their order."""
        tensors: dict[int, tf.Tensor] = {}
        as_constant = functools.cache(lambda shape: tf.constant(shape, tf.int32))
        for places, flat in zip(self.members, packed):
            sizes = [math.prod(self.shapes[place]) for place in places]
            parts = [flat] if len(places) == 1 else tf.split(flat, sizes)
            for place, part in zip(places, parts):
                tensors[place] = tf.reshape(part, as_constant(self.shapes[place]))
        return [tensors[place] for place in range(len(self.shapes))]
