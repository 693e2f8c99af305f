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
    and adds one replica to the graph each time. So make variables by `tf.get_variable` (layers do), under
    names that depend on nothing but the model, and open no scope whose name begins with "tower".

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
        data_from_trainer: whether a trainer of such models makes their data itself, so that the configuration
            has none. Agents that learn by acting set it.
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
            When training (see `training`), the cost, a scalar; for trainers whose builder takes them, an
            `Objective` or a list of them, and then `optimizer` is not needed. Otherwise it is not used.
        """

    def optimizer(self) -> tf.train.Optimizer:
        """Makes an optimizer of `tf.train`. May be left out if `TrainConfig(optimizer=…)` gives one."""
        raise NotImplementedError(
            f"{type(self).__name__} has no optimizer. Define optimizer(self), or give "
            "TrainConfig(optimizer=...)."
        )

    @property
    def training(self) -> bool:
        """Whether the replica being built is for training; to be read inside `build_graph`."""
        context = get_current_tower_context()
        return context is not None and context.is_training
