"""Chooses the number of datapoints to prefetch, from their size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

__all__ = ["default_capacity"]

# Many small datapoints are used while the thread makes the next ones, but their memory stays small.
_CAPACITY, _MOST_SMALL, _BYTES_OF_SMALL = 50, 256, 1 << 22
# The assumed size of an axis that the specs leave open.
_OPEN_AXIS = 128


def default_capacity(specs: Sequence[tf.TensorSpec]) -> int:
    """Returns 50, or up to 256 if datapoints are known to be so small that 4 MB suffice.

    Args:
        specs: the components of a datapoint.

    Example:
        >>> batch = tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int32)
        >>> default_capacity(batch), default_capacity([tf.TensorSpec([32, 224, 224, 3], tf.uint8)])
        (126, 50)
    """
    sizes = [_known_bytes(spec) for spec in specs]
    return max(_CAPACITY, min(_MOST_SMALL, int(_BYTES_OF_SMALL / max(1, sum(sizes)))))


def _known_bytes(spec: tf.TensorSpec) -> float:
    """Returns the size of a component; infinity if it is unknown."""
    if spec.shape.rank is None or spec.dtype == tf.string:
        return math.inf
    axes = [_OPEN_AXIS if axis is None else axis for axis in spec.shape.as_list()]
    return float(math.prod(axes) * spec.dtype.size)
