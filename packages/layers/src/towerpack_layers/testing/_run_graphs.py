"""The subprocess program that runs graphs on empty batches; it does not import this wheel.

It reads a JSON file with a list of jobs, and prints a line of JSON for each: the error, or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["find_failure", "main"]


def main(path: str) -> None:
    """Runs all jobs of a file."""
    for job in json.loads(Path(path).read_text(encoding="utf-8")):
        print(json.dumps(find_failure(job)), flush=True)


def find_failure(job: Mapping[str, Any]) -> str | None:
    """Runs one graph and returns the error, or `None`."""
    try:
        outputs, gradients = _run(job)
    except tf.errors.OpError as error:
        return f"received {type(error).__name__}: {error.message}"
    for value, (name, shape) in zip(outputs, job["outputs"]):
        if list(value.shape) != shape:
            return f"expected {name} of shape {shape}, received {list(value.shape)}"
    for value, (name, _) in zip(gradients, job["gradients"]):
        # A sum over an empty batch must be zero.
        if np.any(np.asarray(value, np.float32) != 0):
            return f"expected a gradient of zeros by {name}, received {value}"
    return None


def _run(job: Mapping[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    definition = tf.GraphDef.FromString(Path(job["graph"]).read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        feeds = {
            name: np.zeros(shape, tf.as_dtype(dtype).as_numpy_dtype) for name, shape, dtype in job["feeds"]
        }
        with tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            session.run(job["initializers"])
            fetches = [name for name, _ in job["outputs"]], [name for _, name in job["gradients"]]
            outputs, gradients = session.run(fetches, feeds)
            return list(outputs), list(gradients)


if __name__ == "__main__":
    main(sys.argv[1])
