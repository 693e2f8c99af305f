"""The moving averages of batch normalisation: variables and update ops."""

from __future__ import annotations

from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ...tower import get_current_tower_context, graph_notes, place_of_body

__all__ = ["MovingAverages", "count_values"]


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
