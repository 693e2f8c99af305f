"""Shared code of layers: argument checks, kernels and biases, and computation on images of any layout."""

from __future__ import annotations

import contextlib
import functools
import math
import numbers
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .registry._layer_scope import attach_variables

__all__ = [
    "DataFormat",
    "KernelAndBias",
    "TensorFunction",
    "axis_sizes",
    "check_channels",
    "check_count",
    "check_data_format",
    "check_function",
    "check_not_both",
    "check_padding",
    "check_pair",
    "check_rank",
    "compute_examples",
    "compute_images",
    "has_all_kernels",
    "is_number",
    "layer_label",
    "nonempty_batches",
    "resolve_initializer",
    "shape2d",
    "shape4d",
    "static_sizes",
]

_PADDINGS = ("same", "valid")


@final
@attrs.frozen
class DataFormat:
    """The order of the axes of an image batch.

    Args:
        name: the name for users, `channels_last` or `channels_first`.
        code: the name in `tf.nn`, `NHWC` or `NCHW`.
        channel: the channel axis.
        spatial: the axes of height and width.
    """

    name: str
    code: str
    channel: int
    spatial: tuple[int, int]

    def window(self, pair: tuple[int, int]) -> list[int]:
        """Converts a pair over height and width to the list of four numbers for `tf.nn`."""
        return [1, *pair, 1] if self.channel == 3 else [1, 1, *pair]


CHANNELS_LAST = DataFormat("channels_last", "NHWC", 3, (1, 2))
_CHANNELS_FIRST = DataFormat("channels_first", "NCHW", 1, (2, 3))
_FORMATS = {known: form for form in (CHANNELS_LAST, _CHANNELS_FIRST) for known in (form.name, form.code)}


def layer_label(layer: str) -> str:
    """Returns the label of the current layer for errors: `Conv2D('conv0')`."""
    scope = tf.get_variable_scope().name
    return f"{layer}({scope!r})" if scope else layer


def check_data_format(call: str, data_format: str) -> DataFormat:
    """Checks the name of a data format and returns the format; `NHWC` and `NCHW` are also accepted.

    Raises:
        ValueError: the name is unknown.
    """
    if data_format not in _FORMATS:
        raise ValueError(
            f"{call}: data_format must be 'channels_last' or 'channels_first', received {data_format!r}."
        )
    return _FORMATS[data_format]


def check_padding(call: str, padding: str) -> str:
    """Checks a padding and returns it in the spelling of `tf.nn`.

    Raises:
        ValueError: the padding is neither `same` nor `valid`, in upper or lower case.
    """
    if not isinstance(padding, str) or padding.lower() not in _PADDINGS:
        raise ValueError(f"{call}: padding must be 'same' or 'valid', received {padding!r}.")
    return padding.upper()


def check_pair(call: str, argument: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Checks a size over height and width, one or two numbers, and returns two numbers.

    Raises:
        ValueError: the value is not a positive int or a pair of them.
    """
    pair = (value, value) if not isinstance(value, Sequence) else tuple(value)
    if len(pair) != 2 or not all(_is_count(size) for size in pair):
        raise ValueError(f"{call}: {argument} must be a positive int or two of them, received {value!r}.")
    return int(pair[0]), int(pair[1])


def check_not_both(call: str, strides: int | Sequence[int], dilation_rate: int | Sequence[int]) -> None:
    """Checks that strides and dilation rates do not both exceed 1.

    Raises:
        ValueError: both exceed 1, over height or width.
    """
    largest = [max(value) if isinstance(value, Sequence) else value for value in (strides, dilation_rate)]
    if min(largest) > 1:
        raise ValueError(f"{call}: strides={strides} and dilation_rate={dilation_rate} cannot both exceed 1.")


def check_count(call: str, argument: str, value: int) -> int:
    """Checks a count and returns it as a Python int.

    Raises:
        ValueError: the value is not a positive int, of Python or NumPy.
    """
    if not _is_count(value):
        raise ValueError(f"{call}: {argument} must be a positive int, received {value!r}.")
    return int(value)


def check_function(call: str, argument: str, value: object) -> None:
    """Checks that an argument is a function or None.

    Raises:
        TypeError: the argument is something else, such as a name.
    """
    if value is not None and not callable(value):
        raise TypeError(
            f"{call}: {argument} must be a function of a tensor, such as tf.nn.relu or l2_regularizer(1e-4), "
            f"received {value!r}."
        )


def is_number(value: object) -> bool:
    """Returns whether a value is a real number of Python or NumPy, not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


def check_rank(call: str, x: Any, *ranks: int) -> int:
    """Checks and returns the rank of a layer's input.

    Raises:
        TypeError: the input is not a tensor.
        ValueError: the rank is unknown, or not among `ranks` (if any are given).
    """
    if not tf.is_tensor(x):
        raise TypeError(
            f"{call}: the input must be a tensor, received {type(x).__name__}. Use tf.convert_to_tensor, or "
            f"check the order of the arguments: name, input, then all others."
        )
    rank = x.shape.rank
    if rank is None or (ranks and rank not in ranks):
        wanted = " or ".join(map(str, ranks)) or "known"
        raise ValueError(
            f"{call}: the input's rank must be {wanted}, received a tensor of shape {x.shape}. Use "
            f"tf.reshape or set_shape."
        )
    return int(rank)


def check_channels(call: str, x: tf.Tensor, axis: int) -> int:
    """Checks that the size of the input's channel axis is static and returns it.

    Raises:
        ValueError: the size is unknown.
    """
    size = x.shape.as_list()[axis]
    if size is None:
        raise ValueError(
            f"{call}: the size of axis {axis} of the input must be known to create variables, received shape "
            f"{x.shape}. Use set_shape."
        )
    return int(size)


def shape2d(size: int | Sequence[int]) -> list[int]:
    """Returns a size over height and width as a list of two.

    Args:
        size: a positive int for both, or two.

    Raises:
        ValueError: the size is not a positive int or a pair of them.

    Example:
        >>> shape2d(3), shape2d((1, 5))
        ([3, 3], [1, 5])
    """
    return list(check_pair("shape2d", "size", size))


def shape4d(size: int | Sequence[int], data_format: str = "channels_last") -> list[int]:
    """Returns a size over height and width as a list of four, for ops such as `tf.nn.conv2d`.

    Args:
        size: a positive int for both, or two.
        data_format: `channels_last` or `NHWC`, `channels_first` or `NCHW`.

    Raises:
        ValueError: an argument has another form.

    Example:
        >>> shape4d(2), shape4d((1, 5), "NCHW")
        ([1, 2, 2, 1], [1, 1, 1, 5])
    """
    return check_data_format("shape4d", data_format).window(check_pair("shape4d", "size", size))


TensorFunction = Callable[[Any], Any]

# The activations that TensorFlow fuses with a convolution.
_ELEMENTWISE = (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu, tf.nn.sigmoid, tf.nn.tanh)


def _is_function(instance: KernelAndBias, attribute: attrs.Attribute[Any], value: object) -> None:
    check_function(instance.call, attribute.name, value)


def _are_functions(
    instance: KernelAndBias, _attribute: attrs.Attribute[Any], value: tuple[object, object]
) -> None:
    for argument, function in zip((instance.argument, "bias"), value):
        check_function(instance.call, f"{argument}_regularizer", function)


@final
@attrs.frozen(eq=False)
class KernelAndBias:
    """Variables and output functions of a layer, checked before any variable is created.

    A graph cannot remove a variable that was created before an error.

    Args:
        call: the layer's label, for errors.
        shape: the kernel's shape.
        dtype: the dtype of both variables.
        use_bias: whether to create `b`.
        initializers: for kernel and bias, each an initializer, number or array; by default an untruncated
            normal distribution with variance 2 / fan-in, and zeros.
        regularizers: for kernel and bias, each a function of the variable that returns a scalar cost, for the
            regularization losses.
        activation: function applied to the layer's result.
        activity_regularizer: function of the output that returns a scalar cost.
        name: the kernel's name.
        argument: the prefix of the kernel's arguments, for errors.
        outputs: the size of the bias; by default the size of the kernel's last axis.
        fan_in: the number of inputs per output; by default the product of all kernel sizes except the last.

    Raises:
        TypeError: an initializer or a function has another type.
        ValueError: an initial array has another shape.
    """

    call: str
    shape: Sequence[int]
    dtype: tf.DType
    use_bias: bool
    initializers: tuple[Any, Any]
    regularizers: tuple[TensorFunction | None, TensorFunction | None] = attrs.field(validator=_are_functions)
    activation: TensorFunction | None = attrs.field(validator=_is_function)
    activity_regularizer: TensorFunction | None = attrs.field(validator=_is_function)
    name: str = "W"
    argument: str = "kernel"
    outputs: int | None = None
    fan_in: int | None = None
    _resolved: tuple[Any, Any] = attrs.field(init=False)

    @_resolved.default
    def _resolve(self) -> tuple[Any, Any]:
        call, (kernel, bias), zeros = self.call, self.initializers, tf.zeros_initializer()
        fan_in = self.fan_in or math.prod(self.shape[:-1])
        he = tf.random_normal_initializer(stddev=math.sqrt(2 / max(fan_in, 1)))
        return (
            resolve_initializer(call, f"{self.argument}_initializer", kernel, he, self.shape),
            resolve_initializer(call, "bias_initializer", bias, zeros, [self._bias_size]),
        )

    @property
    def _bias_size(self) -> int:
        return self.outputs or self.shape[-1]

    def make(self) -> tuple[Any, Any]:
        """Creates the variables of the current layer: the kernel, and `b` or `None`."""
        initializers, regularizers = self._resolved, self.regularizers
        kernel = tf.get_variable(self.name, self.shape, self.dtype, initializers[0], regularizers[0])
        if not self.use_bias:
            return kernel, None
        size = [self._bias_size]
        return kernel, tf.get_variable("b", size, self.dtype, initializers[1], regularizers[1])

    def take_elementwise(self) -> tuple[TensorFunction | None, KernelAndBias]:
        """Separates the activation from these parts, if it is known to be elementwise.

        An elementwise activation may be applied before part of the result is cut off.
        """
        if self.activation not in _ELEMENTWISE:
            return None, self
        return self.activation, attrs.evolve(self, activation=None)

    def finish(self, out: tf.Tensor, kernel: Any, bias: Any) -> tf.Tensor:
        """Applies the activation, collects the cost of the output, and attaches the variables to the output.

        Args:
            out: the layer's result before the activation.
            kernel: the kernel's variable.
            bias: the variable `b`, or `None`.

        Returns:
            The layer's output, named `output`.
        """
        if self.activation is not None:
            out = self.activation(out)
        if self.activity_regularizer is not None:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, self.activity_regularizer(out))
        return attach_variables(tf.identity(out, "output"), **{self.name: kernel}, b=bias)


def resolve_initializer(call: str, argument: str, given: Any, default: Any, shape: Sequence[int]) -> Any:
    """Returns an initializer for `tf.get_variable`.

    Args:
        call: the layer's label, for errors.
        argument: the argument's name, for errors.
        given: the argument: `None`, an initializer, a number, or an array of the variable's shape.
        default: the initializer for `None`.
        shape: the variable's shape.

    Raises:
        TypeError: `given` has another type.
        ValueError: `given` is an array with another shape.
    """
    if given is None or callable(given):
        return default if given is None else given
    if not is_number(given) and not (hasattr(given, "tolist") and hasattr(given, "shape")):
        raise TypeError(
            f"{call}: {argument} must be an initializer such as tf.zeros_initializer(), a number or an "
            f"array, received {given!r}."
        )
    if not is_number(given) and list(given.shape) != list(shape):
        raise ValueError(
            f"{call}: {argument} must have the variable's shape {list(shape)}, received an array of shape "
            f"{list(given.shape)}."
        )
    return tf.constant_initializer(given)


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
        # On a GPU, these ops have kernels for int32 in the host's memory: no layer waits for a copy.
        sizes = tf.shape(x)
        # The number of examples, and -1 for the full size of each other axis.
        kept = tf.minimum(sizes, [tf.int32.max, -1, -1, -1])
        missing = tf.maximum([1, 0, 0, 0] - sizes, 0)
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
