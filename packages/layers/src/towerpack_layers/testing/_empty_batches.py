"""Runs layers on empty batches in a subprocess, since some of TensorFlow's kernels crash."""

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

from ._built_layer import BuiltLayer

__all__ = ["EmptyBatch", "run_apart"]

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
