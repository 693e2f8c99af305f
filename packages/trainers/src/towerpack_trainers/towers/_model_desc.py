"""The description of a model: inputs, graph, optimizer."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from ._objective import Objective

__all__ = ["ModelDesc"]


class ModelDesc(abc.ABC):
    """Describes a model. Subclass it, and override all three methods.

    `build_graph` is a *tower function*: it is called once per training device and once per inference tower,
    and adds one replica to the graph each time. So make variables with `tf.get_variable` (layers do), under
    names that depend only on the model, and do not open a scope with a name that begins with "tower".

    Example:
        ```python
        class Line(ModelDesc):
            def inputs(self):
                return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

            def build_graph(self, x, y):
                slope = tf.get_variable("slope", [])
                return tf.reduce_mean((x * slope - y) ** 2, name="cost")

            def optimizer(self):
                return tf.train.GradientDescentOptimizer(0.1)
        ```

    Attributes:
        data_from_trainer: whether the trainer makes the data, as for agents that learn by acting.
    """

    data_from_trainer: bool = False

    @abc.abstractmethod
    def inputs(self) -> Sequence[tf.TensorSpec]:
        """Returns shape, dtype and name of each input, in the order of a datapoint's components."""

    @abc.abstractmethod
    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | Objective | Sequence[Objective] | None:
        """Adds one replica of the model to the graph.

        Args:
            inputs: one tensor per element of `inputs()`.

        Returns:
            During training (see `training`), the cost, a scalar; for trainers that support it, an
            `Objective` or a list of them, and then `optimizer` is not needed. Otherwise the value is ignored.
        """

    def optimizer(self) -> tf.train.Optimizer:
        """Makes an optimizer of `tf.train`. Not required with `TrainConfig(optimizer=…)`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no optimizer. Define optimizer(self), or use "
            "TrainConfig(optimizer=...)."
        )

    @property
    def training(self) -> bool:
        """Whether the current replica is for training; read it inside `build_graph`."""
        context = get_current_tower_context()
        return context is not None and context.is_training
