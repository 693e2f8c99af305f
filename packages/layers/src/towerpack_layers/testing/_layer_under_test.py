"""A described layer, built and run for its checks, with the comparison of numbers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from ..tower._tower_context import TowerContext

__all__ = [
    "BuiltLayer",
    "ConformanceError",
    "LayerCase",
    "LayerUnderTest",
    "Numbers",
    "draw_weights",
    "expect",
    "expect_near",
    "flatten",
    "open_session",
    "relative_names",
    "run_initializers",
    "ulp_distance",
]


Arrays = Mapping[str, np.ndarray]


def _itself(x: Any) -> Any:
    return x


@final
@attrs.frozen(eq=False)
class LayerCase:
    """A layer, the arguments of its call, and its expected behaviour.

    Args:
        layer: the layer, made by `register_layer`.
        options: the arguments of the call, besides name and input.
        variables: the names of its variables, in order of creation, relative to its scope.
        shape: the shape of an input, batch first and channels last.
        dtype: the dtype of the input. Integers are drawn from 0 to 3.
        reference: the layer in NumPy: takes the input and the variables by name, all float64 (integers are
            not converted), and returns the output in training. `None` for a layer with random numbers.
        inputs: a function that makes the layer's input from a tensor of this shape and dtype, or from an
            array. By default the tensor itself.
        label: a name for this row if a layer has several.
        constants: a NumPy function of the arguments of `reference` that returns the constants of the layer's
            gradient; the reference receives them among its variables.
        any_batch: whether the options work with any batch size.
        tolerance: the maximum distance from the reference, in ulp of the largest number.

    Example:
        >>> from towerpack_layers import FullyConnected
        >>> case = LayerCase(
        ...     FullyConnected,
        ...     {"units": 5},
        ...     ("W", "b"),
        ...     shape=(4, 6),
        ...     reference=lambda x, variables: x @ variables["W"] + variables["b"],
        ... )
    """

    layer: Any
    options: Mapping[str, Any] = attrs.field(factory=dict)
    variables: tuple[str, ...] = ()
    shape: tuple[int, ...] = (4, 6, 8, 3)
    dtype: tf.DType = tf.float32
    reference: Callable[[np.ndarray, Arrays], Any] | None = None
    inputs: Callable[[Any], Any] = _itself
    label: str = ""
    constants: Callable[[np.ndarray, Arrays], Arrays] | None = None
    any_batch: bool = True
    tolerance: float = 32.0

    @property
    def name(self) -> str:
        """The layer's name and the label."""
        return " ".join(filter(None, (self.layer.layer_name, self.label)))

    @property
    def has_data_format(self) -> bool:
        """Whether the layer supports images of both data formats."""
        return "data_format" in inspect.signature(self.layer).parameters

    def build(self, x: Any, **more: Any) -> Any:
        """Builds the layer with the name `layer` on a tensor of the described shape and dtype.

        Args:
            x: the tensor, to which `inputs` is applied.
            **more: arguments that extend or override `options`.
        """
        return self.layer("layer", self.inputs(x), **{**self.options, **more})

    def draw_input(self) -> np.ndarray:
        """Draws an input, the same one at each call."""
        random = np.random.default_rng(16)
        if self.dtype.is_integer:
            return random.integers(0, 4, self.shape).astype(self.dtype.as_numpy_dtype)
        return random.normal(size=self.shape).astype(self.dtype.as_numpy_dtype)


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


class ConformanceError(AssertionError):
    """A layer violates an expectation; the message names the check, the expected and the received result."""


def expect(condition: bool, message: str) -> None:
    """Checks an expectation.

    Raises:
        ConformanceError: the condition does not hold.
    """
    if not condition:
        raise ConformanceError(f"{message}.")


def ulp_distance(received: np.ndarray, expected: np.ndarray, dtype: tf.DType, scale: float = 0.0) -> float:
    """Returns the largest difference of two arrays, in ulp of the largest expected magnitude.

    Here, an ulp is `2 ** -23` of that magnitude for float32, `2 ** -52` for float64, `2 ** -10` for float16
    and `2 ** -7` for bfloat16. The ulp is not taken per element: if large numbers cancel in a sum, an element
    near zero has the absolute error of its terms, an arbitrary number in ulp of the element.

    Args:
        received: the array computed in `dtype`.
        expected: the expected array, with more digits.
        dtype: the dtype that defines the ulp.
        scale: the minimum magnitude.

    Returns:
        The distance; infinite if an element is NaN or infinite in only one of the arrays.

    Example:
        >>> import numpy as np, tensorflow.compat.v1 as tf
        >>> from towerpack_layers.testing import ulp_distance
        >>> ulp_distance(np.array([1.0 + 2**-22, 0.0]), np.array([1.0, 0.0]), tf.float32)
        2.0
    """
    received, expected = np.asarray(received, np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(received[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    received, expected = received[finite], expected[finite]
    if not np.isfinite(received).all():
        return float("inf")
    largest = max(float(np.abs(expected).max(initial=0.0)), scale, float(np.finfo(np.float64).tiny))
    return float(np.abs(received - expected).max(initial=0.0) / (largest * _epsilon(dtype)))


def expect_near(
    what: str, received: np.ndarray, expected: np.ndarray, dtype: tf.DType, tolerance: float
) -> None:
    """Checks that an array has the shape of another one and is close to it.

    Args:
        what: the subject of the error's sentence.
        received: the array computed in `dtype`.
        expected: the expected array.
        dtype: the dtype that defines the ulp.
        tolerance: the largest distance, in ulp.

    Raises:
        ConformanceError: the shape differs, or the distance is larger.
    """
    received, expected = np.asarray(received), np.asarray(expected)
    expect(
        received.shape == expected.shape,
        f"{what} must have the shape {expected.shape}, received {received.shape}",
    )
    distance = ulp_distance(received, expected, dtype)
    if distance <= tolerance:
        return
    away = np.abs(np.subtract(received, expected, dtype=np.float64))
    place = np.unravel_index(np.argmax(np.where(np.isnan(away), np.inf, away)), away.shape)
    raise ConformanceError(
        f"{what} must be within {tolerance:g} ulp of {dtype.name}, received {distance:.3g} ulp: expected "
        f"{float(expected[place]):.9g} at {list(map(int, place))}, received {float(received[place]):.9g}."
    )


def _epsilon(dtype: tf.DType) -> float:
    return 2.0**-7 if dtype == tf.bfloat16 else float(np.finfo(dtype.as_numpy_dtype).eps)


@final
class LayerUnderTest:
    """A described layer, and the expected numbers of its checks.

    Args:
        case: the layer.
    """

    def __init__(self, case: LayerCase) -> None:
        self.case = case
        self.x = case.draw_input()

    @functools.cached_property
    def trained(self) -> BuiltLayer:
        """The layer described by `case`, in training."""
        return BuiltLayer(self.case)

    @functools.cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The values of all variables: the initial ones, with a perturbation for trained variables.

        Without it, a bias of zeros or a scale of ones would hide errors.
        """
        random = np.random.default_rng(42)
        values = self.trained.initial_values()
        for name in self.trained.targets:
            if name != "input" and values[name].dtype.kind == "f":
                moved = values[name] + 0.3 * random.normal(size=values[name].shape)
                values[name] = moved.astype(values[name].dtype)
        return values

    @functools.cached_property
    def is_deterministic(self) -> bool:
        """Whether repeated computations in training give the same result."""
        # In one session, since another session with the seed of the graph would draw the same numbers.
        built, outputs = self.trained, list[list[np.ndarray]]()
        for _ in range(2):
            outputs.append(built.run(self.x, self.values).outputs)
        return all(map(_equal, *outputs))

    @functools.cached_property
    def subject(self) -> BuiltLayer:
        """The layer for comparisons: in training, or in inference if training is random."""
        return self.trained if self.is_deterministic else BuiltLayer(self.case, is_training=False)

    @functools.cached_property
    def weights(self) -> list[np.ndarray]:
        """The weights of the output elements in the scalar for gradient comparisons."""
        weighted = zip(self.subject.outputs, self.subject.run(self.x, self.values).outputs)
        return draw_weights([value for output, value in weighted if output.dtype.is_floating])

    @functools.cached_property
    def numbers(self) -> Numbers:
        """The outputs and gradients of `subject`."""
        return self.subject.run(self.x, self.values, self.weights)

    def variant(self, **changes: Any) -> BuiltLayer:
        """Builds the layer in the mode of `subject`, with changed arguments of `BuiltLayer`."""
        return BuiltLayer(self.case, is_training=self.is_deterministic, **changes)

    @functools.cached_property
    def wide(self) -> BuiltLayer | None:
        """The layer for float64, or `None` if it does not support float64."""
        return self.variant_of(tf.float64) if self.case.dtype.is_floating else None

    def variant_of(self, dtype: tf.DType) -> BuiltLayer | None:
        """Builds the layer for another dtype, or returns `None` if the layer refuses the dtype.

        Raises:
            ConformanceError: the layer's error does not name the received dtype, or is raised after variables
                have been created.
        """
        try:
            return self.variant(dtype=dtype)
        except (TypeError, ValueError) as error:
            name = dtype.name
            expect(
                "received" in str(error) and name in str(error),
                f"an input of {name} must be accepted, or refused by an error with 'received {name}', "
                f"received {type(error).__name__}: {error}",
            )
            return None

    def refer(self, x: np.ndarray, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of the reference in float64."""
        assert self.case.reference is not None
        wide = {name: np.asarray(value, np.float64) for name, value in values.items()}
        if x.dtype.kind == "f":
            x = x.astype(np.float64)
        return [np.asarray(output) for output in flatten(self.case.reference(x, wide))]

    def with_constants(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the values and the constants of gradients."""
        if self.case.constants is None:
            return dict(values)
        wide = {name: np.asarray(value, np.float64) for name, value in values.items()}
        return {**values, **self.case.constants(self.x.astype(np.float64), wide)}


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
