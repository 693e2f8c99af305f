"""Workarounds for images that some TensorFlow kernels do not support: layouts, and empty batches."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from ._layer_arguments import CHANNELS_LAST, DataFormat

__all__ = [
    "axis_sizes",
    "compute_examples",
    "compute_images",
    "has_all_kernels",
    "nonempty_batches",
    "static_sizes",
]

_OFF = ("0", "false")
# In the spelling of Linux; TensorFlow 2.21 checks these (`IsMKLEnabled` in tensorflow/core/util/util.cc).
_FOR_NETWORKS = {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}

_has_examples: ContextVar[bool] = ContextVar("towerpack_layers_has_examples", default=False)


def compute_images(
    function: Callable[[tf.Tensor, DataFormat], tf.Tensor], x: tf.Tensor, form: DataFormat
) -> tf.Tensor:
    """Applies a function to images in their layout, or in `NHWC` if kernels do not support it.

    Args:
        function: a function of images and their data format that returns images of this format.
        x: images.
        form: the data format of `x` and of the result.
    """
    if form is CHANNELS_LAST or has_all_kernels(x.dtype):
        return function(x, form)
    out = function(tf.transpose(x, [0, 2, 3, 1]), CHANNELS_LAST)
    return tf.transpose(out, [0, 3, 1, 2])


def has_all_kernels(dtype: tf.DType) -> bool:
    """Returns whether the kernels of this machine support `NCHW`, and groups and dilations in gradients.

    GPU kernels do. On a CPU, oneDNN kernels do, for float32 on every processor; TensorFlow uses oneDNN by
    default on processors with neural network instructions, such as AVX-512 VNNI. Other kernels raise an error
    at run time (`Conv2DCustomBackpropInputOp`, TensorFlow 2.21).

    Args:
        dtype: the dtype of the images.
    """
    if dtype == tf.float32 and platform.machine() == "x86_64" and _uses_onednn():
        return True
    return bool(tf.config.list_physical_devices("GPU"))


def _uses_onednn() -> bool:
    """Returns whether TensorFlow uses oneDNN in this process."""
    wanted = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower()
    return wanted not in _OFF if wanted else _has_neural_instructions()


@functools.cache
def _has_neural_instructions() -> bool:
    """Returns whether the processor has instructions for which TensorFlow uses oneDNN by default."""
    try:
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not _FOR_NETWORKS.isdisjoint(description.split())


@contextlib.contextmanager
def nonempty_batches() -> Iterator[None]:
    """Makes layers in this block assume that each batch has at least one example.

    They then omit the ops that TensorFlow's kernels need for empty batches. Use it for graphs that other
    programs run: these support fewer ops and fuse directly consecutive layers.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import MaxPooling, nonempty_batches
        >>> with tf.Graph().as_default() as graph, nonempty_batches():
        ...     out = MaxPooling("pool", tf.placeholder(tf.float32, [None, 8, 8, 3]), 2)
        >>> [op.type for op in graph.get_operations()]
        ['Placeholder', 'MaxPool', 'Identity']
    """
    token = _has_examples.set(True)
    try:
        yield
    finally:
        _has_examples.reset(token)


def compute_examples(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """Applies a function to a batch of images, which may be empty.

    On an empty batch, oneDNN's convolutions return a result of the input's shape and raise an `InternalError`
    in the gradient; the gradient of max pooling (`MklMaxPoolGradOp`) aborts the process (TensorFlow 2.21).
    Therefore an empty batch is extended by an example of zeros, which is removed from the result. For other
    batches, the zero-size padding and the full slice copy no data. A block of `nonempty_batches` omits these
    ops.

    Args:
        function: a function that treats examples independently and returns a tensor of four axes, batch
            first.
        x: tensor of four axes, batch first.
    """
    if x.shape.as_list()[0] or _has_examples.get():
        return function(x)
    with tf.name_scope("examples"):
        # The number of examples, and -1 for the full size of each other axis.
        kept = tf.bitwise.bitwise_or(tf.shape(x), [0, -1, -1, -1])
        missing = tf.cast(tf.equal(kept, 0), tf.int32)
        padded = tf.pad(x, tf.stack([tf.zeros([4], tf.int32), missing], axis=1))
        padded.set_shape([None, *x.shape[1:]])
    out = function(padded)
    cut = tf.slice(out, [0, 0, 0, 0], kept)
    cut.set_shape([x.shape[0], *out.shape[1:]])
    return cut


def axis_sizes(x: tf.Tensor) -> list[Any]:
    """Returns the size of each axis of a tensor: an int if static, else a scalar tensor."""
    sizes = x.shape.as_list()
    if None in sizes:
        dynamic = tf.unstack(tf.shape(x))
        return [dynamic[axis] if size is None else size for axis, size in enumerate(sizes)]
    return list(sizes)


def static_sizes(sizes: Sequence[Any]) -> list[int | None]:
    """Returns sizes as a static shape: `None` in place of a tensor."""
    return [None if tf.is_tensor(size) else size for size in sizes]
