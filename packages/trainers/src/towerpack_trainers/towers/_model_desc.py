"""The description of a model: inputs, graph, optimizer."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from .._argument_checks import check_function
from ._objective import MakeOptimizer, Objective, check_cost
from ._tower import check_specs

__all__ = ["FunctionModel", "ModelDesc"]


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
    def build_graph(self, *inputs: Any, **_: Any) -> tf.Tensor | Objective | Sequence[Objective] | None:
        """Adds one replica of the model to the graph.

        Args:
            inputs: one tensor per element of `inputs()`; an override may name its parameters.

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


@final
class FunctionModel(ModelDesc):
    """Describes a model by its inputs, a cost function, and an optimizer function.

    Args:
        signature: see `ModelDesc.inputs`.
        cost_fn: see `ModelDesc.build_graph`; it is also called for evaluation replicas.
        optimizer_fn: see `ModelDesc.optimizer`.

    Raises:
        ModelError: a spec is not a `tf.TensorSpec` with a valid and unique name; or (when a training tower is
            built) `cost_fn` does not return a scalar cost.
        TypeError: a function is not callable.
    """

    def __init__(
        self, signature: Sequence[tf.TensorSpec], cost_fn: Callable[..., Any], optimizer_fn: MakeOptimizer
    ) -> None:
        self._specs = check_specs(signature, "setup_graph(signature=...) takes")
        self._cost_fn = check_function("setup_graph(cost_fn=...)", cost_fn)
        self._optimizer_fn = check_function("setup_graph(optimizer_fn=...)", optimizer_fn)

    def inputs(self) -> Sequence[tf.TensorSpec]:
        return self._specs

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor:
        cost = self._cost_fn(*inputs)
        return check_cost(cost, "cost_fn must return") if self.training else cost

    def optimizer(self) -> tf.train.Optimizer:
        return self._optimizer_fn()
