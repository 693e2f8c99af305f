"""The one place that calls NCCL. There are no GPUs where our tests run: this has not been run by them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

__all__ = ["sum_over_gpus"]


def sum_over_gpus(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The sum of some tensors, on the device of each.

    NCCL waits until all devices take part, so whoever runs one of the results must run all.

    Args:
        tensors: of one shape and dtype, each on another GPU of this host.
    """
    # Not public since TensorFlow 2, but used by its own strategies; the op, NcclAllReduce, is.
    from tensorflow.python.ops import nccl_ops

    return list(nccl_ops.all_sum(tensors))
