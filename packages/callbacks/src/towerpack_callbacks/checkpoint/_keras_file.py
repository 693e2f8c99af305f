"""Reads weights from Keras files: `.h5`, `.weights.h5` and `.keras`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._errors import CheckpointError

__all__ = ["read_keras"]


def read_keras(path: Path) -> dict[str, np.ndarray]:
    """Reads the weights of a Keras model.

    Args:
        path: a file of Keras 2 or 3. Files of Keras 2, and `.h5` files of Keras 3, give the names of
            variables, such as "dense/kernel". `.weights.h5` and `.keras` files of Keras 3 have paths instead,
            such as "layers/dense/vars/0" for the first variable of the layer.

    Raises:
        CheckpointError: the file cannot be read, or has no weights.
    """
    try:
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                arrays = _read_hdf5(io.BytesIO(archive.read("model.weights.h5")))
        else:
            arrays = _read_hdf5(path)
    except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read as a Keras file: {error}.") from error
    if not arrays:
        raise CheckpointError(f"{path} has no weights.")
    return arrays


def _read_hdf5(file: Any) -> dict[str, np.ndarray]:
    with h5py.File(file, "r") as root:
        weights = root.get("model_weights", root)
        if "layer_names" in weights.attrs:
            return _read_by_layer(weights)
        arrays: dict[str, np.ndarray] = {}

        def visit(name: str, item: Any) -> None:
            # The state of an optimizer and of metrics is no weight.
            if isinstance(item, h5py.Dataset) and not name.startswith(("optimizer/", "metrics/")):
                arrays[name] = _values(name, item)

        weights.visititems(visit)  # does not follow links out of the file
        return arrays


def _read_by_layer(weights: Any) -> dict[str, np.ndarray]:
    arrays = {}
    for layer in map(_text, weights.attrs["layer_names"]):
        for name in map(_text, weights[layer].attrs["weight_names"]):
            if name.removesuffix(":0") in arrays:
                raise ValueError(f"two weights are called {name!r}")
            arrays[name.removesuffix(":0")] = _values(name, weights[layer][name])
    return arrays


def _values(name: str, item: Any) -> np.ndarray:
    if item.external or item.is_virtual:
        raise ValueError(f"the values of {name!r} are in another file")
    return np.asarray(item[()])


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
