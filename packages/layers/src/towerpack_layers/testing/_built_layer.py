"""A layer in a graph of its own: forward, backward, with given values of its variables."""

from __future__ import annotations

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
    """Opens a session that computes the same on every machine: a GPU may have fewer digits."""
    return tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))


def run_initializers(session: tf.Session, values: Mapping[str, np.ndarray] | None) -> None:
    """Sets the variables of a graph by relative name; by their initializers, where `values` is None."""
    if values is None:
        session.run(tf.global_variables_initializer())
        return
    for variable, name in zip(tf.global_variables(), relative_names(tf.global_variables())):
        # Not `load`, which warns that it will go.
        value = np.asarray(values[name]).astype(variable.dtype.base_dtype.as_numpy_dtype)
        session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def draw_weights(outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draws what each element of the outputs counts in the scalar whose gradient is checked."""
    random = np.random.default_rng(23)
    return [random.normal(size=output.shape).astype(np.float32) for output in outputs]


@final
@attrs.frozen(eq=False)
class Numbers:
    """What a layer has computed.

    Args:
        outputs: its outputs.
        gradients: the gradient of the weighted sum of outputs, by `input` and by the variables' names.
    """

    outputs: list[np.ndarray]
    gradients: dict[str, np.ndarray]


@final
class BuiltLayer:
    """A layer in a graph of its own, over a placeholder, with its gradients.

    Args:
        case: the layer.
        dtype: the input's dtype; the one of `case` by default.
        shape: the placeholder's shape; the one of `case` by default.
        is_training: whether the layer is built for training.
        options: arguments of the layer besides those of `case`.
    """

    def __init__(
        self,
        case: LayerCase,
        *,
        dtype: tf.DType | None = None,
        shape: Sequence[int | None] | None = None,
        is_training: bool = True,
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
            self._make_gradients()

    def _make_gradients(self) -> None:
        trainable = tf.trainable_variables()
        self.targets = dict(zip(relative_names(trainable), trainable))
        if self.dtype.is_floating:
            self.targets = {"input": self.x, **self.targets}
        self.weighted = [output for output in self.outputs if output.dtype.is_floating]
        self.weights = [
            tf.placeholder(output.dtype, output.shape, f"weight{number}")
            for number, output in enumerate(self.weighted)
        ]
        found = tf.gradients(
            self.weighted, [*self.targets.values()], self.weights, unconnected_gradients="zero"
        )
        self.gradients = dict(zip(self.targets, map(tf.convert_to_tensor, found)))

    @property
    def static_shapes(self) -> list[list[int | None] | None]:
        """The static shapes of the outputs; `None` for an unknown rank."""
        shapes = [output.shape for output in self.outputs]
        return [None if shape.rank is None else shape.as_list() for shape in shapes]

    def session(self) -> tf.Session:
        """Opens a session."""
        return open_session(self.graph)

    def initial_values(self) -> dict[str, np.ndarray]:
        """Returns what the initializers give the variables."""
        with self.graph.as_default(), self.session() as session:
            run_initializers(session, None)
            return dict(zip(relative_names(self.variables), session.run(self.variables)))

    def run(
        self,
        x: np.ndarray,
        values: Mapping[str, np.ndarray],
        weights: Sequence[np.ndarray] | None = None,
    ) -> Numbers:
        """Computes the outputs, and the gradients where there are weights.

        Args:
            x: the input.
            values: the variables, by relative name.
            weights: what each element of the outputs counts.
        """
        with self.graph.as_default(), self.session() as session:
            run_initializers(session, values)
            return self.run_in(session, x, weights)

    def run_in(
        self, session: tf.Session, x: np.ndarray, weights: Sequence[np.ndarray] | None = None
    ) -> Numbers:
        """Computes the same in a session whose variables are set."""
        feed = {self.x: x.astype(self.dtype.as_numpy_dtype)}
        for place, weight in zip(self.weights, weights or []):
            feed[place] = weight.astype(place.dtype.as_numpy_dtype)
        fetches = [self.outputs, self.gradients if weights is not None else {}]
        return Numbers(*session.run(fetches, feed))
