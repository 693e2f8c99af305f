"""Shared code of normalisation layers: checks, channels, scale and offset."""

from __future__ import annotations

import numbers
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import check_channels, check_data_format, check_rank, is_number, resolve_initializer
from ...registry import attach_variables

__all__ = [
    "as_image",
    "check_batch",
    "check_epsilon",
    "check_momentum",
    "find_channels",
    "make_scale_and_offset",
    "name_result",
    "scale_and_offset",
]

# The dtypes that TensorFlow's fused batch normalisation kernels support.
_DTYPES = (tf.float32, tf.float16, tf.bfloat16)


def check_batch(call: str, x: Any) -> None:
    """Checks the input of a batch normalisation.

    Raises:
        TypeError: the input is not a tensor, or has another dtype.
        ValueError: the input is neither 2-D nor 4-D.
    """
    check_rank(call, x, 2, 4)
    if x.dtype not in _DTYPES:
        raise TypeError(
            f"{call}: the input must be float32, float16 or bfloat16, received {x.dtype.name}. Use tf.cast."
        )


def check_momentum(call: str, argument: str, value: float) -> float:
    """Checks the momentum of a moving average and returns it as a Python float.

    Raises:
        ValueError: the value is not a number from 0 to 1.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{call}: {argument} must be between 0 and 1, received {value!r}.")
    return float(value)


def check_epsilon(call: str, epsilon: float) -> float:
    """Checks the epsilon of a variance and returns it as a Python float.

    Raises:
        ValueError: the value is not a number, or is negative.
    """
    if not is_number(epsilon) or not epsilon >= 0:
        raise ValueError(f"{call}: epsilon must not be negative, received {epsilon!r}.")
    return float(epsilon)


def find_channels(call: str, x: tf.Tensor, axis: int | None, data_format: str) -> tuple[str, int]:
    """Finds the channels of a 2-D or 4-D input.

    Args:
        call: the layer's label, for errors.
        x: the input.
        axis: the channel axis; `None`: the last axis of a 2-D input, and that of `data_format` for a 4-D
            input.
        data_format: `channels_last` or `channels_first`.

    Returns:
        TensorFlow's name of the data format, and the number of channels.

    Raises:
        ValueError: an argument is out of range, or the number of channels is unknown.
    """
    rank = x.shape.rank
    if axis is not None and not isinstance(axis, numbers.Integral):
        raise ValueError(f"{call}: axis must be an int, received {axis!r}.")
    form = check_data_format(call, data_format)
    channel = (1 if rank == 2 else form.channel) if axis is None else int(axis)
    if channel % rank not in ((1,) if rank == 2 else (1, 3)) or not -rank <= channel < rank:
        wanted = "1" if rank == 2 else "1 or 3"
        raise ValueError(f"{call}: axis of a {rank}-D input must be {wanted}, received {axis}.")
    code = "NCHW" if rank == 4 and channel % rank == 1 else "NHWC"
    return code, check_channels(call, x, channel % rank)


def make_scale_and_offset(
    call: str,
    channels: int,
    dtype: tf.DType,
    *,
    center: bool,
    scale: bool,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
) -> dict[str, Any]:
    """Creates the variables `gamma` and `beta`; `None` for one that is disabled.

    Args:
        call: the layer's label, for errors.
        channels: the size of both.
        dtype: the dtype of both.
        center: whether to create `beta`.
        scale: whether to create `gamma`.
        beta_initializer: zeros by default.
        gamma_initializer: ones by default.

    Raises:
        TypeError: an initializer has another type.
        ValueError: an initial array has another shape.
    """
    given = {
        "gamma": (gamma_initializer, tf.ones_initializer()),
        "beta": (beta_initializer, tf.zeros_initializer()),
    }
    # Check all of them before the first variable is created.
    initializers = {
        name: resolve_initializer(call, f"{name}_initializer", value, default, [channels])
        for name, (value, default) in given.items()
    }
    wanted = {"gamma": scale, "beta": center}
    return {
        name: tf.get_variable(name, [channels], dtype, initializer) if wanted[name] else None
        for name, initializer in initializers.items()
    }


def scale_and_offset(affine: dict[str, Any], channels: int) -> tuple[Any, Any]:
    """Returns `gamma` and `beta`; ones and zeros if they are disabled."""
    gamma = tf.ones([channels]) if affine["gamma"] is None else affine["gamma"]
    beta = tf.zeros([channels]) if affine["beta"] is None else affine["beta"]
    return gamma, beta


def as_image(x: tf.Tensor, channels: int) -> tf.Tensor:
    """Returns a batch as images; an example of a 2-D input becomes one pixel."""
    return x if x.shape.rank == 4 else tf.reshape(x, [-1, 1, 1, channels])


def name_result(x: tf.Tensor, out: tf.Tensor, **variables: Any) -> tf.Tensor:
    """Returns the layer's output, in the shape of its input and with its variables attached.

    Args:
        x: the layer's input.
        out: the normalised batch, in the input's shape or as images.
        **variables: the layer's variables, by their names in `.variables`.
    """
    out = out if x.shape.rank == out.shape.rank else tf.reshape(out, tf.shape(x))
    out.set_shape(x.shape)
    return attach_variables(tf.identity(out, "output"), **variables)
