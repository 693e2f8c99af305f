"""Checks of a layer with other input shapes: data formats, unknown sizes, empty batches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from ._layer_under_test import BuiltLayer, LayerUnderTest, Numbers, expect, expect_near

__all__ = [
    "EmptyBatch",
    "check_data_formats",
    "check_empty_batch",
    "check_shapes",
    "empty_batches",
    "expect_no_failure",
    "run_apart",
]


_PROGRAM = Path(__file__).with_name("_run_graphs.py")
_SECONDS = 300


@final
@attrs.frozen(eq=False)
class EmptyBatch:
    """One graph to run on an empty batch.

    Args:
        built: the layer.
        shape: the shape of the input to feed.
        label: a description of this graph, for errors.
    """

    built: BuiltLayer
    shape: tuple[int, ...]
    label: str

    def write(self, directory: Path, number: int) -> dict[str, Any]:
        """Writes the graph to a file, and returns the job for the subprocess."""
        path = directory / f"{number}.pb"
        built = self.built
        gradients = [[name, gradient.name] for name, gradient in built.gradients.items()]
        path.write_bytes(built.graph.as_graph_def().SerializeToString())
        initializers = [variable.initializer.name for variable in built.variables]
        outputs = [[output.name, [size or 0 for size in output.shape.as_list()]] for output in built.outputs]
        shapes = dict(outputs)
        weights = [
            [weight.name, shapes[output.name], weight.dtype.name]
            for weight, output in zip(built.weights, built.weighted)
        ]
        return {
            "graph": str(path),
            "initializers": initializers,
            "feeds": [[built.x.name, list(self.shape), built.dtype.name], *weights],
            "outputs": outputs,
            "gradients": gradients,
        }


def run_apart(jobs: Sequence[EmptyBatch]) -> list[str | None]:
    """Runs graphs in a subprocess, and in a new one after each crash.

    Args:
        jobs: the graphs.

    Returns:
        The error of each graph, or `None`.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        written = [job.write(directory, number) for number, job in enumerate(jobs)]
        failures: list[str | None] = []
        while len(failures) < len(jobs):
            path = directory / "jobs.json"
            path.write_text(json.dumps(written[len(failures) :]))
            failures += _run_until_end(path)
    return failures


def _run_until_end(path: Path) -> list[str | None]:
    """Runs jobs until all are done or the process crashes; the crash is then the last failure."""
    command = [sys.executable, str(_PROGRAM), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    failures: list[str | None] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        failures.append(f"the process ended with {_ending(done.returncode)}: {done.stderr[-1000:].strip()}")
    return failures


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


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
