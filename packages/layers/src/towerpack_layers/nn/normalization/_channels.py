"""The channels of an input that is normalised: where they are, and their scale and offset."""

from __future__ import annotations

import numbers
from typing import Any

import tensorflow.compat.v1 as tf

from ...arguments import check_channels, check_data_format, is_number, resolve_initializer

__all__ = ["check_epsilon", "find_channels", "make_scale_and_offset"]


def check_epsilon(call: str, epsilon: float) -> float:
    """Checks what is added to a variance, and returns it as a Python float.

    Raises:
        ValueError: it is no number, or a negative one.
    """
    if not is_number(epsilon) or not epsilon >= 0:
        raise ValueError(f"{call}: epsilon must not be negative, received {epsilon!r}.")
    return float(epsilon)


def find_channels(call: str, x: tf.Tensor, axis: int | None, data_format: str) -> tuple[str, int]:
    """Finds the channels of a 2-D or 4-D input.

    Args:
        call: the layer's label, for errors.
        x: the input.
        axis: the channel axis; `None`: the last one of two, and that of `data_format` of four.
        data_format: `channels_last` or `channels_first`.

    Returns:
        TensorFlow's name of the data format, and the number of channels.

    Raises:
        ValueError: an argument is out of range, or the number is not known.
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
    """Makes the variables `gamma` and `beta`, each `None` where it is left out.

    Args:
        call: the layer's label, for errors.
        channels: the size of both.
        dtype: the dtype of both.
        center: whether there is a `beta`.
        scale: whether there is a `gamma`.
        beta_initializer: zeros by default.
        gamma_initializer: ones by default.

    Raises:
        TypeError: an initializer is none.
        ValueError: an array that initializes is of another shape.
    """
    given = {
        "gamma": (gamma_initializer, tf.ones_initializer()),
        "beta": (beta_initializer, tf.zeros_initializer()),
    }
    # All are checked before the first variable is made.
    initializers = {
        name: resolve_initializer(call, f"{name}_initializer", value, default, [channels])
        for name, (value, default) in given.items()
    }
    wanted = {"gamma": scale, "beta": center}
    return {
        name: tf.get_variable(name, [channels], dtype, initializer) if wanted[name] else None
        for name, initializer in initializers.items()
    }
