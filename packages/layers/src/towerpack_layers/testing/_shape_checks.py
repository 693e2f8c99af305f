"""Checks of a layer with other input shapes: data formats, unknown sizes, empty batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ._built_layer import BuiltLayer, Numbers
from ._empty_batches import EmptyBatch, run_apart
from ._layer_under_test import LayerUnderTest
from ._ulp_distance import expect, expect_near

__all__ = ["check_data_formats", "check_empty_batch", "check_shapes", "empty_batches", "expect_no_failure"]

Shape = list[int | None]


def check_data_formats(layer: LayerUnderTest) -> None:
    """Checks that both data formats give the same numbers, with static and with unknown sizes."""
    if not layer.case.has_data_format:
        return
    shape = _first(layer.case.shape)
    for sizes in (shape, [None, shape[1], *[None] * (len(shape) - 2)]):
        built = layer.variant(shape=sizes, data_format="channels_first")
        weights = [_turn(weight) for weight in layer.weights]
        turned = built.run(_turn(layer.x), layer.values, weights)
        back = Numbers(
            [_turn_back(output) for output in turned.outputs],
            {
                name: _turn_back(gradient) if name == "input" else gradient
                for name, gradient in turned.gradients.items()
            },
        )
        _expect_same(layer, back, f"with data_format='channels_first' and an input of shape {sizes}")


def check_shapes(layer: LayerUnderTest) -> None:
    """Checks static shapes, and that unknown input sizes do not change the numbers."""
    for number, (static, value) in enumerate(zip(layer.subject.static_shapes, layer.numbers.outputs)):
        expect(
            static == list(value.shape),
            f"output {number} of an input of static shape {list(layer.case.shape)} must have the static "
            f"shape of its value, {list(value.shape)}, received {static}",
        )
    _check_unknown_batch(layer)
    built = _with_unknown_sizes(layer)
    if built is not None:
        numbers = built.run(layer.x, layer.values, layer.weights)
        when = f"for an input of static shape {built.x.shape}"
        _expect_same(layer, numbers, when)
        _expect_compatible(built.static_shapes, numbers.outputs, when)


def check_empty_batch(layer: LayerUnderTest) -> None:
    """Checks forward and backward passes on an empty batch, in a subprocess."""
    jobs = empty_batches(layer)
    for job, failure in zip(jobs, run_apart(jobs)):
        expect_no_failure(job, failure)


def empty_batches(layer: LayerUnderTest) -> list[EmptyBatch]:
    """Returns the jobs that test a layer on an empty batch."""
    if not layer.case.any_batch:
        return []
    tail = list(layer.case.shape[1:])
    unknown = BuiltLayer(layer.case, shape=[None, *tail])
    static = BuiltLayer(layer.case, shape=[0, *tail])
    jobs = [
        EmptyBatch(unknown, (0, *tail), "an unknown batch size"),
        EmptyBatch(static, (0, *tail), "the static batch size 0"),
    ]
    if layer.case.has_data_format:
        first = _first(layer.case.shape)[1:]
        built = BuiltLayer(layer.case, shape=[None, *first], data_format="channels_first")
        jobs.append(EmptyBatch(built, (0, *first), "data_format='channels_first'"))
    return jobs


def expect_no_failure(job: EmptyBatch, failure: str | None) -> None:
    """Checks the result of `run_apart` for one job.

    Raises:
        ConformanceError: the job has failed.
    """
    expect(
        failure is None,
        f"forward and backward passes on an empty batch, with {job.label}, must work in training: {failure}",
    )


def _check_unknown_batch(layer: LayerUnderTest) -> None:
    if not layer.case.any_batch:
        return
    size, *tail = layer.case.shape
    shapes = layer.subject.static_shapes
    doubled = layer.variant(shape=[2 * size, *tail], backward=False).static_shapes
    built = layer.variant(shape=[None, *tail])
    for number, (one, other, received) in enumerate(zip(shapes, doubled, built.static_shapes)):
        expected = _where_equal(one, other)
        expect(
            received == expected,
            f"output {number} of an input of static shape {[None, *tail]} must have the static shape "
            f"{expected}, received {received}",
        )
    numbers = built.run(layer.x, layer.values, layer.weights)
    _expect_same(layer, numbers, "for an unknown batch size")


def _where_equal(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return None
    return [size if size == doubled else None for size, doubled in zip(one, other)]


def _with_unknown_sizes(layer: LayerUnderTest) -> BuiltLayer | None:
    """Builds the layer with only the last size static, or returns `None` if it requires a static size."""
    shape: Shape = [*[None] * (len(layer.case.shape) - 1), layer.case.shape[-1]]
    try:
        return layer.variant(shape=shape)
    except ValueError as error:
        expect(
            not layer.case.has_data_format and "known" in str(error),
            f"an input of static shape {shape} must be accepted, or (except for images) refused by an error "
            f"that names the required static size, received ValueError: {error}",
        )
        return None


def _expect_compatible(shapes: Sequence[Shape | None], values: Sequence[np.ndarray], when: str) -> None:
    for shape, value in zip(shapes, values):
        expect(
            tf.TensorShape(shape).is_compatible_with(value.shape),
            f"{when}, the static shape of the output must match its value, {list(value.shape)}, received "
            f"{shape}",
        )


def _expect_same(layer: LayerUnderTest, received: Numbers, when: str) -> None:
    tolerance = layer.case.tolerance
    for value, wanted, tensor in zip(received.outputs, layer.numbers.outputs, layer.subject.outputs):
        dtype = tensor.dtype if tensor.dtype.is_floating else tf.float32
        expect_near(f"{when}, the output", value, wanted, dtype, tolerance)
    for name, wanted in layer.numbers.gradients.items():
        gradient, dtype = received.gradients[name], tf.as_dtype(wanted.dtype)
        expect_near(f"{when}, the gradient by {name}", gradient, wanted, dtype, 2 * tolerance)


def _first(shape: Sequence[int]) -> list[Any]:
    return [shape[0], shape[-1], *shape[1:-1]] if len(shape) > 2 else list(shape)


def _turn(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if x.ndim > 2 else x


def _turn_back(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if x.ndim > 2 else x
