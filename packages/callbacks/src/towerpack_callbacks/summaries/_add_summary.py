"""Symbolic functions by which a model declares summaries to record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import tensorflow.compat.v1 as tf

__all__ = ["MOVING_SUMMARIES", "add_moving_summary", "add_param_summary", "summary_tag"]

MOVING_SUMMARIES = "MOVING_SUMMARIES"
"""Graph collection of scalar tensors; any library may add to it without importing this one."""

_TOWER_PREFIX = re.compile(r"^tower\d+/")


def summary_tag(name: str) -> str:
    """Returns the name of a statistic: without tower prefix, output number and "-summary".

    Example:
        >>> summary_tag("tower0/fc1/cost-summary:0")
        'fc1/cost'
    """
    return _TOWER_PREFIX.sub("", name).split(":")[0].removesuffix("-summary")


def add_moving_summary(*scalars: tf.Tensor | Sequence[tf.Tensor], collection: str = MOVING_SUMMARIES) -> None:
    """Records moving averages of scalars: updated each step, written each epoch by `MovingAverageSummary`.

    It adds no op: `MovingAverageSummary` keeps the averages, in a local variable of the graph, and in the
    state of a checkpoint.

    Args:
        scalars: scalar tensors of any number type, or lists of them. Each is recorded under its op's name.
        collection: the graph collection to add them to, for a `MovingAverageSummary` of one's own.

    Raises:
        ValueError: a tensor is not a scalar.

    Example:
        ```python
        cost = tf.reduce_mean(losses, name="cost")
        add_moving_summary(cost)
        ```
    """
    for scalar in _flatten(scalars):
        if scalar.shape.rank != 0:
            raise ValueError(
                f"add_moving_summary takes scalars, received {scalar.name!r} of shape {scalar.shape}. "
                "Reduce it first, for example by tf.reduce_mean."
            )
        tf.add_to_collection(collection, scalar)


def _flatten(scalars: Iterable[tf.Tensor | Sequence[tf.Tensor]]) -> Iterable[tf.Tensor]:
    for item in scalars:
        if isinstance(item, (list, tuple)):
            yield from item
        else:
            yield item


def _rms(x: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_mean(tf.square(tf.cast(x, tf.float32))))


_SUMMARIES: dict[str, Callable[[str, tf.Tensor], tf.Tensor]] = {
    "histogram": lambda tag, x: tf.summary.histogram(f"{tag}/histogram", x),
    "mean": lambda tag, x: tf.summary.scalar(f"{tag}/mean", tf.reduce_mean(tf.cast(x, tf.float32))),
    "rms": lambda tag, x: tf.summary.scalar(f"{tag}/rms", _rms(x)),
    "scalar": lambda tag, x: tf.summary.scalar(tag, x),
    "sparsity": lambda tag, x: tf.summary.scalar(f"{tag}/sparsity", tf.nn.zero_fraction(x)),
}


def add_param_summary(*rules: tuple[str, Sequence[str]]) -> None:
    """Adds summaries of the trainable variables whose whole name matches, to be written once per epoch.

    Args:
        rules: pairs of a regular expression and the kinds of summary wanted: of "histogram", "mean", "rms",
            "scalar", "sparsity".

    Raises:
        ValueError: an unknown kind of summary.

    Example:
        ```python
        add_param_summary((".*/W", ["histogram", "rms"]))
        ```
    """
    for _, kinds in rules:
        unknown = [kind for kind in kinds if kind not in _SUMMARIES]
        if unknown:
            raise ValueError(
                f"add_param_summary: unknown kind {unknown[0]!r}; known are {sorted(_SUMMARIES)}."
            )
    # Tags must not depend on the scope of the caller.
    with tf.name_scope(None):
        for variable in tf.trainable_variables():
            for regex, kinds in rules:
                if re.fullmatch(regex, variable.op.name):
                    for kind in kinds:
                        _SUMMARIES[kind](variable.op.name, variable)
