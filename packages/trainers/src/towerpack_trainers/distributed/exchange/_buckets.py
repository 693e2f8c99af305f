"""Packs many tensors into few: 100 small ones, exchanged one by one, take ten times as long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs
import tensorflow.compat.v1 as tf

__all__ = ["Bucket", "exchange_packed", "plan_buckets"]


@attrs.frozen
class Bucket:
    """Tensors that travel as one.

    Attributes:
        dtype: name of their common type.
        members: their places in the list of all.
        sizes: their numbers of elements.
    """

    dtype: str
    members: tuple[int, ...]
    sizes: tuple[int, ...]


def plan_buckets(tensors: Sequence[tuple[str, int]], limit: int) -> list[Bucket]:
    """Divides tensors into buckets of one type each, in their order.

    Args:
        tensors: of each, the name of its type and its number of elements.
        limit: elements in a bucket; a larger tensor gets one of its own.

    Example:
        >>> [bucket.members for bucket in plan_buckets([("f", 3), ("i", 1), ("f", 4), ("f", 5)], limit=8)]
        [(0, 2), (1,), (3,)]
    """
    filling: dict[str, list[int]] = {}
    groups: list[list[int]] = []
    for place, (dtype, size) in enumerate(tensors):
        members = filling.get(dtype)
        if members is None or sum(tensors[member][1] for member in members) + size > limit:
            filling[dtype] = members = []
            groups.append(members)
        members.append(place)
    return [
        Bucket(tensors[members[0]][0], tuple(members), tuple(tensors[member][1] for member in members))
        for members in groups
    ]


def exchange_packed(
    tensors: Sequence[tf.Tensor],
    exchange: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
    limit: int,
) -> list[tf.Tensor]:
    """Sends tensors of static shapes through an exchange of flat ones.

    Args:
        tensors: any number of them.
        exchange: takes and returns flat tensors, one per bucket.
        limit: elements in a bucket.

    Returns:
        Tensors of the same shapes and types, in the same order. None is there before all are.
    """
    plan = plan_buckets([(tensor.dtype.name, math.prod(tensor.shape.as_list())) for tensor in tensors], limit)
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    packed = [
        flat[bucket.members[0]]
        if len(bucket.members) == 1
        else tf.concat([flat[m] for m in bucket.members], 0)
        for bucket in plan
    ]
    answers = tf.tuple(list(exchange(packed)))
    unpacked: dict[int, tf.Tensor] = {}
    for bucket, answer in zip(plan, answers):
        parts = [answer] if len(bucket.members) == 1 else tf.split(answer, list(bucket.sizes))
        unpacked.update(zip(bucket.members, parts))
    return [tf.reshape(unpacked[place], tensor.shape) for place, tensor in enumerate(tensors)]
