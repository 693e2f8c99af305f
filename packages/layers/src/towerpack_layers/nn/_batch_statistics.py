"""Shared code of normalisation layers: channels, scale and offset, moving averages, and statistics."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..arguments import (
    check_channels,
    check_count,
    check_data_format,
    check_rank,
    is_number,
    resolve_initializer,
)
from ..registry._layer_scope import attach_variables
from ..tower._tower_context import get_current_tower_context, graph_notes, place_of_body

__all__ = [
    "UNSYNCHRONIZED_STATISTICS",
    "CrossTowerSum",
    "MovingAverages",
    "as_image",
    "check_batch",
    "check_epsilon",
    "check_ghost_batches",
    "check_momentum",
    "count_values",
    "find_channels",
    "make_scale_and_offset",
    "name_result",
    "normalize",
    "normalize_ghost_batches",
    "scale_and_offset",
    "statistics_of_all_towers",
]


@final
@attrs.frozen(eq=False)
class MovingAverages:
    """The moving averages of a batch's statistics.

    Args:
        mean: variable of shape `[channels]`.
        variance: variable of the same shape, of variances or standard deviations.
    """

    mean: Any
    variance: Any

    @classmethod
    def make(cls, channels: int, mean: str = "mean/EMA", variance: str = "variance/EMA") -> MovingAverages:
        """Creates the two variables in the current variable scope.

        Args:
            channels: the size of both.
            mean: the name of the first, initialised with zeros.
            variance: the name of the second, initialised with ones.
        """
        with tf.variable_scope(tf.get_variable_scope(), auxiliary_name_scope=False) as scope:
            # Neither is a weight, so a scope's settings for weights must not apply.
            scope.set_partitioner(None)
            return cls(
                _average(mean, channels, tf.zeros_initializer()),
                _average(variance, channels, tf.ones_initializer()),
            )

    def move(
        self, mean: tf.Tensor, variance: tf.Tensor, momentum: float, examples: tf.Tensor | int
    ) -> list[tf.Operation]:
        """Creates the ops that move the averages towards the statistics of a batch.

        The ops of a second use of the layer in this tower run after those of the first.

        Args:
            mean: mean of the batch.
            variance: variance of the batch.
            momentum: weight of the old value.
            examples: the number of values of the statistics, which are undefined for 0.
        """
        pairs = ((self.mean, mean), (self.variance, variance))
        return [_move(average, now, 1 - momentum, examples) for average, now in pairs]


def count_values(batch: tf.Tensor) -> tf.Tensor | int:
    """Returns the number of values per channel in a batch; an int if the batch size is static."""
    known = batch.shape.num_elements()
    return tf.size(batch) if known is None else int(known)


def _average(name: str, channels: int, initializer: Any) -> Any:
    return tf.get_variable(
        name,
        [channels],
        tf.float32,
        initializer,
        regularizer=tf.no_regularizer,
        trainable=False,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
    )


def _move(average: Any, now: tf.Tensor, weight: float, examples: tf.Tensor | int) -> tf.Operation:
    graph, moved = tf.get_default_graph(), graph_notes().moved
    key = _place_of_move(average)
    with tf.control_dependencies([graph.get_operation_by_name(moved[key])] if key in moved else []):
        # A reference variable of TensorFlow 1 is read where it was created, unless read explicitly.
        value = average.value() if hasattr(average, "handle") else average.read_value()
        step = (value - now) * weight
    known = tf.get_static_value(examples)
    if known is None:
        step = tf.where_v2(tf.equal(examples, 0), tf.zeros([]), step)
    elif known == 0:
        step = tf.zeros_like(step)
    move = average.assign_sub(step, read_value=False)
    moved[key] = move.name
    return move


def _place_of_move(average: Any) -> tuple[str, ...]:
    """Returns variable, tower and control flow body: updates with equal keys can wait for each other."""
    tower = get_current_tower_context()
    return (average.name, "" if tower is None else tower.name, *place_of_body())


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


def check_ghost_batches(call: str, x: tf.Tensor, size: int | None, sync_statistics: bool) -> int | None:
    """Checks the size of ghost batches and returns it as a Python int.

    Raises:
        ValueError: the size is not a positive int, does not divide the batch size, or is combined with
            `sync_statistics`.
    """
    if size is None:
        return None
    size = check_count(call, "virtual_batch_size", size)
    if sync_statistics:
        raise ValueError(
            f"{call}: virtual_batch_size={size} makes batches smaller, but sync_statistics=True makes them "
            "larger. Set only one of the two."
        )
    batch = x.shape.as_list()[0]
    if batch is not None and batch % size:
        raise ValueError(f"{call}: {_rule(size)}; the batch has {batch} examples.")
    return size


def normalize_ghost_batches(
    call: str, image: tf.Tensor, code: str, size: int, beta: Any, gamma: Any, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalises each group of consecutive examples of a batch separately.

    Args:
        call: the layer's label, for errors.
        image: the batch, 4-D.
        code: NHWC or NCHW.
        size: examples in a group.
        beta: added to each channel.
        gamma: multiplies each channel.
        epsilon: added to variances.

    Returns:
        The normalised batch; and the means and the unbiased variances, averaged over the groups.
    """
    shape = tf.shape(image)
    fits = tf.debugging.Assert(tf.equal(shape[0] % size, 0), [f"{call}: {_rule(size)}. Examples:", shape[0]])
    with tf.control_dependencies([fits]):
        split = tf.concat([[shape[0] // size, size], shape[1:]], 0)
    stretches = tf.reshape(tf.cast(image, tf.float32), split)
    channel = code.index("C") + 1
    axes = [axis for axis in range(1, 5) if axis != channel]
    mean, variance = tf.nn.moments(stretches, axes, keepdims=True)
    form = [-1 if axis == channel else 1 for axis in range(5)]
    beta, gamma = tf.reshape(beta, form), tf.reshape(gamma, form)
    normal = tf.nn.batch_normalization(stretches, mean, variance, beta, gamma, epsilon)
    values = tf.cast(tf.reduce_prod(tf.gather(split, axes)), tf.float32)
    variance *= values / tf.maximum(values - 1, 1)
    mean, variance = (tf.reduce_mean(tf.squeeze(each, axes), 0) for each in (mean, variance))
    return tf.reshape(tf.cast(normal, image.dtype), shape), mean, variance


def _rule(size: int) -> str:
    return f"virtual_batch_size={size} must divide the batch"


# Collection of the labels of layers with synchronised statistics in a model of one tower. Trainers that use
# several processes read it.
UNSYNCHRONIZED_STATISTICS = "UNSYNCHRONIZED_STATISTICS"

CrossTowerSum = Callable[[tf.Tensor], tf.Tensor]


def statistics_of_all_towers(
    image: tf.Tensor, code: str, sum_over_towers: CrossTowerSum
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns mean, biased variance and unbiased variance of each channel, and the number of its values.

    Variances are computed around the mean of all towers, in a second exchange. The mean of squares, which the
    first exchange could include, loses digits if the mean is large.

    Args:
        image: this tower's batch, 4-D; towers may have batches of different sizes.
        code: NHWC or NCHW.
        sum_over_towers: `TowerContext.cross_tower_sum`.

    Returns:
        Three float32 vectors and a float32 scalar, equal in all towers.
    """
    image, axes = tf.cast(image, tf.float32), _all_but_channels(code)
    count = tf.reduce_prod(tf.gather(tf.shape(image), axes))
    total = sum_over_towers(tf.concat([[tf.cast(count, tf.float32)], tf.reduce_sum(image, axes)], 0))
    examples, mean = total[0], total[1:] / total[0]
    squares = sum_over_towers(tf.reduce_sum(tf.math.squared_difference(image, _as_image(mean, code)), axes))
    return mean, squares / examples, squares / tf.maximum(examples - 1, 1), examples


def normalize(
    image: tf.Tensor, code: str, mean: Any, variance: Any, beta: Any, gamma: Any, epsilon: float
) -> tf.Tensor:
    """Normalises the batch with the given statistics, in its dtype."""
    mean, variance, beta, gamma = (_as_image(vector, code) for vector in (mean, variance, beta, gamma))
    whole = tf.nn.batch_normalization(tf.cast(image, tf.float32), mean, variance, beta, gamma, epsilon)
    return tf.cast(whole, image.dtype)


def _all_but_channels(code: str) -> list[int]:
    return [axis for axis, letter in enumerate(code) if letter != "C"]


def _as_image(vector: Any, code: str) -> tf.Tensor:
    return tf.reshape(vector, [-1 if letter == "C" else 1 for letter in code])
