"""Images that some kernels of TensorFlow cannot compute: in one of the layouts, or none at all."""

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
# As Linux names them; TensorFlow 2.21 looks for these (`IsMKLEnabled` in tensorflow/core/util/util.cc).
_FOR_NETWORKS = {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}

_has_examples: ContextVar[bool] = ContextVar("towerpack_layers_has_examples", default=False)


def compute_images(
    function: Callable[[tf.Tensor, DataFormat], tf.Tensor], x: tf.Tensor, form: DataFormat
) -> tf.Tensor:
    """Returns a function of images, computed in their own layout or, where kernels lack it, in `NHWC`.

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
    """Returns whether the kernels of this machine take `NCHW`, and in gradients groups and dilations.

    The kernels of a GPU do. On a CPU, those of oneDNN do, for float32 on every processor; TensorFlow uses
    them by default where the processor has instructions for networks, such as AVX-512 VNNI. Other kernels
    raise an error when they are run (`Conv2DCustomBackpropInputOp`, TensorFlow 2.21).

    Args:
        dtype: the dtype of the images.
    """
    if dtype == tf.float32 and platform.machine() == "x86_64" and _uses_onednn():
        return True
    return bool(tf.config.list_physical_devices("GPU"))


def _uses_onednn() -> bool:
    """Returns whether TensorFlow computes by oneDNN in this process."""
    wanted = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower()
    return wanted not in _OFF if wanted else _has_neural_instructions()


@functools.cache
def _has_neural_instructions() -> bool:
    """Returns whether the processor has an instruction set for which TensorFlow uses oneDNN by default."""
    try:
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not _FOR_NETWORKS.isdisjoint(description.split())


@contextlib.contextmanager
def nonempty_batches() -> Iterator[None]:
    """Lets the layers of this block take for granted that each batch has an example.

    They then add no ops for batches without any, which TensorFlow's kernels need. For graphs that other
    programs shall run: those know fewer ops, and combine layers that stand right behind each other.

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
    """Returns a function of a batch of images, also where the batch has no examples.

    On such a batch, oneDNN's convolutions give a result of their input's shape, and an `InternalError` in
    the gradient; the gradient of max pooling (`MklMaxPoolGradOp`) ends the process (TensorFlow 2.21). So such
    a batch is computed with an example of zeros, which is then cut off. Padding by nothing, and a slice of
    everything, copy nothing. In a block of `nonempty_batches` there is no such batch.

    Args:
        function: a function of each example by itself that returns a tensor of four axes, batch first.
        x: tensor of four axes, batch first.
    """
    if x.shape.as_list()[0] or _has_examples.get():
        return function(x)
    with tf.name_scope("examples"):
        # The number of examples, and -1 for each other axis, which means all of it.
        kept = tf.bitwise.bitwise_or(tf.shape(x), [0, -1, -1, -1])
        missing = tf.cast(tf.equal(kept, 0), tf.int32)
        padded = tf.pad(x, tf.stack([tf.zeros([4], tf.int32), missing], axis=1))
        padded.set_shape([None, *x.shape[1:]])
    out = function(padded)
    cut = tf.slice(out, [0, 0, 0, 0], kept)
    cut.set_shape([x.shape[0], *out.shape[1:]])
    return cut


def axis_sizes(x: tf.Tensor) -> list[Any]:
    """Returns the size of each axis of a tensor: an int where it is static, else a scalar tensor."""
    sizes = x.shape.as_list()
    if None in sizes:
        dynamic = tf.unstack(tf.shape(x))
        return [dynamic[axis] if size is None else size for axis, size in enumerate(sizes)]
    return list(sizes)


def static_sizes(sizes: Sequence[Any]) -> list[int | None]:
    """Returns sizes as a static shape: `None` in place of a tensor."""
    return [None if tf.is_tensor(size) else size for size in sizes]
