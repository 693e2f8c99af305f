"""A model described by functions instead of a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._argument_checks import check_function
from ._cost_gradients import check_cost
from ._model_desc import ModelDesc
from ._objective import MakeOptimizer
from ._tower import check_specs

__all__ = ["FunctionModel"]


@final
class FunctionModel(ModelDesc):
    """Describes a model by its inputs, a cost function, and an optimizer function.

    Args:
        signature: see `ModelDesc.inputs`.
        cost_fn: see `ModelDesc.build_graph`; it is also called for evaluation replicas.
        optimizer_fn: see `ModelDesc.optimizer`.
        owner: the function with these arguments, for messages.

    Raises:
        ModelError: a spec is not a `tf.TensorSpec` with a valid and unique name; or (when a training tower is
            built) `cost_fn` does not return a scalar cost.
        TypeError: a function is not callable.
    """

    def __init__(
        self,
        signature: Sequence[tf.TensorSpec],
        cost_fn: Callable[..., Any],
        optimizer_fn: MakeOptimizer,
        owner: str = "setup_graph",
    ) -> None:
        self._specs = check_specs(signature, f"{owner}(signature=...) takes")
        self._cost_fn = check_function(f"{owner}(cost_fn=...)", cost_fn)
        self._optimizer_fn = check_function(f"{owner}(optimizer_fn=...)", optimizer_fn)

    def inputs(self) -> Sequence[tf.TensorSpec]:
        return self._specs

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor:
        cost = self._cost_fn(*inputs)
        return check_cost(cost, "cost_fn must return") if self.training else cost

    def optimizer(self) -> tf.train.Optimizer:
        return self._optimizer_fn()
