"""A layer in a separate graph, run forward and backward with given variable values."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from ..tower import TowerContext
from ._layer_case import LayerCase

__all__ = [
    "BuiltLayer",
    "Numbers",
    "draw_weights",
    "flatten",
    "open_session",
    "relative_names",
    "run_initializers",
]

_SCOPE = "layer/"


def flatten(result: Any) -> list[Any]:
    """Returns the tensors of a layer's result, which may be a structure of them."""
    return list(tf.nest.flatten(result))


def relative_names(variables: Sequence[Any], scope: str = _SCOPE) -> list[str]:
    """Returns the names of variables without the layer's scope."""
    return [variable.op.name.removeprefix(scope) for variable in variables]


def open_session(graph: tf.Graph) -> tf.Session:
    """Opens a session on the CPU, for the same precision on every machine."""
    return tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))


def _numpy_dtype(variable: Any) -> Any:
    return variable.dtype.base_dtype.as_numpy_dtype


def run_initializers(session: tf.Session, values: Mapping[str, np.ndarray] | None) -> None:
    """Sets the variables of a graph by relative name, or by their initializers if `values` is None."""
    if values is None:
        with session.graph.as_default():
            session.run(tf.global_variables_initializer())
        return
    variables = session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    feed = {
        variable.initializer.inputs[1]: np.asarray(values[name]).astype(_numpy_dtype(variable))
        for variable, name in zip(variables, relative_names(variables))
    }
    session.run([variable.initializer for variable in variables], feed)


def draw_weights(outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draws the weights of the output elements in the scalar for gradient checks."""
    random = np.random.default_rng(23)
    return [random.normal(size=output.shape).astype(np.float32) for output in outputs]


@final
@attrs.frozen(eq=False)
class Numbers:
    """The computed numbers of a layer.

    Args:
        outputs: its outputs.
        gradients: the gradients of the weighted sum of outputs, under "input" and the variables' names.
    """

    outputs: list[np.ndarray]
    gradients: dict[str, np.ndarray]


@final
class BuiltLayer:
    """A layer in a separate graph, with a placeholder as input and with gradients.

    Args:
        case: the layer.
        dtype: the input's dtype; by default that of `case`.
        shape: the placeholder's shape; by default that of `case`.
        is_training: whether the layer is built for training.
        backward: whether to build gradients. They are built before the first run: TensorFlow 2.21 cannot
            differentiate a loop that a session has already run.
        options: arguments of the layer in addition to those of `case`.
    """

    def __init__(
        self,
        case: LayerCase,
        *,
        dtype: tf.DType | None = None,
        shape: Sequence[int | None] | None = None,
        is_training: bool = True,
        backward: bool = True,
        **options: Any,
    ) -> None:
        self.case, self.dtype = case, dtype or case.dtype
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(7)
            self.x = tf.placeholder(self.dtype, case.shape if shape is None else shape, "x")
            with TowerContext("", is_training=is_training):
                self.outputs = flatten(case.build(self.x, **options))
            self.variables = tf.global_variables()
            trainable = tf.trainable_variables()
        self.targets = dict(zip(relative_names(trainable), trainable))
        if self.dtype.is_floating:
            self.targets = {"input": self.x, **self.targets}
        self.weighted = [output for output in self.outputs if output.dtype.is_floating]
        self.weights, self.gradients = self._differentiate() if backward else ([], {})

    def _differentiate(self) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns placeholders of the elements' weights, and the gradients of the weighted sum."""
        with self.graph.as_default():
            weights = [tf.placeholder(output.dtype, output.shape) for output in self.weighted]
            targets = [*self.targets.values()]
            found = tf.gradients(self.weighted, targets, weights, unconnected_gradients="zero")
            return weights, dict(zip(self.targets, map(tf.convert_to_tensor, found)))

    @functools.cached_property
    def _session(self) -> tf.Session:
        return open_session(self.graph)

    @property
    def static_shapes(self) -> list[list[int | None] | None]:
        """The static shapes of the outputs; `None` for an unknown rank."""
        shapes = [output.shape for output in self.outputs]
        return [None if shape.rank is None else shape.as_list() for shape in shapes]

    def initial_values(self) -> dict[str, np.ndarray]:
        """Returns the initial values of the variables."""
        run_initializers(self._session, None)
        return dict(zip(relative_names(self.variables), self._session.run(self.variables)))

    def run(
        self,
        x: np.ndarray,
        values: Mapping[str, np.ndarray],
        weights: Sequence[np.ndarray] | None = None,
    ) -> Numbers:
        """Computes the outputs, and the gradients if weights are given.

        Args:
            x: the input.
            values: the variables, by relative name.
            weights: the weights of the output elements.
        """
        run_initializers(self._session, values)
        return self.run_in(self._session, x, weights)

    def run_in(
        self, session: tf.Session, x: np.ndarray, weights: Sequence[np.ndarray] | None = None
    ) -> Numbers:
        """Computes the same in a session with initialised variables."""
        feed = {self.x: x.astype(self.dtype.as_numpy_dtype)}
        for place, weight in zip(self.weights, weights or []):
            feed[place] = weight.astype(place.dtype.as_numpy_dtype)
        fetches = [self.outputs, self.gradients if weights is not None else {}]
        return Numbers(*session.run(fetches, feed))
