"""Checks of a layer's numbers: outputs, gradients, other dtypes, and saved state."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from ._layer_under_test import BuiltLayer, LayerUnderTest, expect, expect_near, open_session, run_initializers

__all__ = [
    "check_finite_differences",
    "check_gradient",
    "check_half_precision",
    "check_outputs",
    "check_saved",
]


_STEP = 1e-6
_DIRECTIONS = 3
# The relative error of a gradient from a central difference, due to rounding.
_DIFFERENCE_ERROR = 3e-8
_HALF_TOLERANCE = 16.0

Values = Mapping[str, np.ndarray]
Function = Callable[[np.ndarray, Values], Sequence[np.ndarray]]


def check_outputs(layer: LayerUnderTest) -> None:
    """Checks the outputs in float32 and float64 against the reference."""
    if layer.case.reference is None:
        return
    expect(
        layer.is_deterministic,
        "a layer with a reference must give equal results for equal inputs in training; two runs differ",
    )
    expected = layer.refer(layer.x, layer.with_constants(layer.values))
    for built in _precise(layer):
        outputs = built.run(layer.x, layer.values).outputs
        expect(
            len(outputs) == len(expected),
            f"the reference has {len(expected)} outputs, received {len(outputs)}",
        )
        for received, wanted, tensor in zip(outputs, expected, built.outputs):
            dtype = tensor.dtype if tensor.dtype.is_floating else tf.float32
            expect_near(f"the output in {built.dtype.name}", received, wanted, dtype, layer.case.tolerance)


def check_gradient(layer: LayerUnderTest) -> None:
    """Checks the gradients in float32 and float64 against central differences of the reference."""
    if layer.case.reference is None:
        return
    values = layer.with_constants(layer.values)
    for built in _precise(layer):
        gradients = built.run(layer.x, layer.values, layer.weights).gradients
        _compare(layer, gradients, values, layer.refer, f"the reference, in {built.dtype.name}")


def check_finite_differences(layer: LayerUnderTest) -> None:
    """Checks the gradients in float64 against central differences of the layer's outputs."""
    built = layer.wide
    if built is None or layer.case.constants is not None:
        return

    def outputs(x: np.ndarray, values: Values) -> list[np.ndarray]:
        return built.run(x, values).outputs

    gradients = built.run(layer.x, layer.values, layer.weights).gradients
    _compare(layer, gradients, layer.values, outputs, "the outputs, in float64")


def check_half_precision(layer: LayerUnderTest) -> None:
    """Checks that half precisions keep their dtype, are close to float32, and have finite gradients."""
    if not layer.case.dtype.is_floating:
        return
    for dtype in (tf.bfloat16, tf.float16):
        built = layer.variant_of(dtype)
        if built is None:
            continue
        for output in built.outputs:
            expect(
                output.dtype == dtype or not output.dtype.is_floating,
                f"the output for an input of {dtype.name} must have this dtype, received {output.dtype.name}",
            )
        _compare_half(layer, built)


def check_saved(layer: LayerUnderTest) -> None:
    """Checks that a checkpoint with the variables is sufficient for an evaluation."""
    case = layer.case
    expected = BuiltLayer(case, is_training=False, backward=False).run(layer.x, layer.values).outputs
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "values")
        if case.variables:
            names = _save(layer, path)
            wanted = sorted(f"layer/{name}" for name in case.variables)
            expect(names == wanted, f"a checkpoint must hold the variables {wanted}, received {names}")
        evaluated = BuiltLayer(case, is_training=False, backward=False)
        with evaluated.graph.as_default(), open_session(evaluated.graph) as session:
            if case.variables:
                tf.train.Saver().restore(session, path)
            received = evaluated.run_in(session, layer.x).outputs
    for number, (value, wanted_value) in enumerate(zip(received, expected)):
        expect(
            np.array_equal(value, wanted_value, equal_nan=True),
            f"evaluation after loading a checkpoint must give the same output {number}; check for state "
            "outside of variables",
        )


def _save(layer: LayerUnderTest, path: str) -> list[str]:
    with layer.trained.graph.as_default(), open_session(layer.trained.graph) as session:
        run_initializers(session, layer.values)
        tf.train.Saver().save(session, path, write_meta_graph=False)
    return sorted(name for name, _ in tf.train.list_variables(path))


def _precise(layer: LayerUnderTest) -> Iterator[BuiltLayer]:
    """Yields the layer as described, and for float64 if supported."""
    yield layer.subject
    if layer.wide is not None:
        yield layer.wide


def _compare(
    layer: LayerUnderTest, gradients: Values, values: Values, function: Function, of_what: str
) -> None:
    """Compares gradients with central differences along random directions."""
    random = np.random.default_rng(5)
    for name, gradient in gradients.items():
        base = np.asarray(layer.x if name == "input" else values[name], np.float64)
        expect(
            gradient.shape == base.shape,
            f"the gradient by {name} must have the shape {base.shape}, received {gradient.shape}",
        )
        for _ in range(_DIRECTIONS):
            direction = random.normal(size=base.shape)
            direction /= np.linalg.norm(direction)
            sides = (
                function(*_moved(layer.x, values, name, base + side * direction)) for side in (_STEP, -_STEP)
            )
            slope = _slope(layer, *sides)
            _expect_slope(
                f"the gradient by {name}", of_what, gradient, direction, slope, layer.case.tolerance
            )


def _slope(layer: LayerUnderTest, above: Sequence[np.ndarray], below: Sequence[np.ndarray]) -> float:
    """Returns the slope of the weighted sum of outputs between two points."""
    floating = [output.dtype.is_floating for output in layer.subject.outputs]
    # Subtract before summing: the two sums have too few digits for an accurate difference.
    rises = [np.subtract(up, down, dtype=np.float64) for up, down in zip(above, below)]
    rises = [rise for rise, counts in zip(rises, floating) if counts]
    return sum(float(np.sum(rise * weight)) for rise, weight in zip(rises, layer.weights)) / (2 * _STEP)


def _expect_slope(
    what: str, of_what: str, gradient: np.ndarray, direction: np.ndarray, slope: float, tolerance: float
) -> None:
    wide, epsilon = gradient.astype(np.float64), float(np.finfo(gradient.dtype).eps)
    received = float(np.sum(wide * direction))
    scale = max(float(np.linalg.norm(wide)), abs(slope), 1e-3)
    allowed = scale * max(tolerance * epsilon, _DIFFERENCE_ERROR)
    expect(
        abs(received - slope) <= allowed,
        f"{what} must be the slope of {of_what}: expected {slope:.9g} +- {allowed:.2g} along a random "
        f"direction, received {received:.9g}",
    )


def _moved(x: np.ndarray, values: Values, name: str, moved: np.ndarray) -> tuple[np.ndarray, Values]:
    return (moved, values) if name == "input" else (x, {**values, name: moved})


def _compare_half(layer: LayerUnderTest, built: BuiltLayer) -> None:
    dtype = built.dtype
    # Round the numbers first, so that the float32 computation uses the same numbers.
    x = layer.x.astype(dtype.as_numpy_dtype).astype(np.float32)
    values = {
        name: layer.values[name].astype(variable.dtype.base_dtype.as_numpy_dtype).astype(np.float32)
        for variable, name in zip(built.variables, layer.values)
    }
    near = layer.subject.run(x, values).outputs
    numbers = built.run(x, values, layer.weights)
    for received, wanted in zip(numbers.outputs, near):
        expect_near(
            f"the output in {dtype.name}, compared with float32,", received, wanted, dtype, _HALF_TOLERANCE
        )
    for name, gradient in numbers.gradients.items():
        expect(
            gradient.dtype == built.targets[name].dtype.base_dtype.as_numpy_dtype,
            f"the gradient by {name} must have its dtype, received {gradient.dtype}",
        )
        finite = bool(np.isfinite(gradient.astype(np.float32)).all())
        expect(finite, f"the gradient by {name} in {dtype.name} must be finite, received {gradient}")
