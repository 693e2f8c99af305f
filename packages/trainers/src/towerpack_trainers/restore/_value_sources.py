"""Sources of values: files, dictionaries, and the objects of `tf.train.Checkpoint`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_variables

from .._errors import RestoreError

__all__ = ["read_values"]

_OBJECTS = (tf.train.Checkpoint, tf.compat.v2.train.Checkpoint)


def read_values(source: Any) -> dict[str, np.ndarray] | None:
    """Returns arrays by variable name, or None if `source` has another type.

    Args:
        source: a path, a mapping of arrays, or a `tf.train.Checkpoint`.

    Raises:
        CheckpointError: a file cannot be read.
        RestoreError: an array is masked, or the variables of a `tf.train.Checkpoint` have no values here.
    """
    if isinstance(source, (str, Path)):
        return load_variables(source)
    if isinstance(source, Mapping):
        masked = [name for name, value in source.items() if isinstance(value, np.ma.MaskedArray)]
        if masked:
            raise RestoreError(
                f"Values are plain arrays; received masked ones for {', '.join(sorted(masked))}. "
                "Fill them first."
            )
        return {name.removesuffix(":0"): np.asarray(value) for name, value in source.items()}
    if isinstance(source, _OBJECTS):
        return _read_objects(source)
    return None


def _read_objects(checkpoint: Any) -> dict[str, np.ndarray]:
    if not tf.executing_eagerly():
        raise RestoreError(
            "The variables of a tf.train.Checkpoint have no values inside a graph. Pass it outside of any "
            "`with graph.as_default()`, or save it and pass the path."
        )
    # Through a file: only the writer can list the variables of an object with their names.
    with tempfile.TemporaryDirectory() as directory:
        return load_variables(checkpoint.write(str(Path(directory) / "objects")))
