"""Reads checkpoints: this package's directories, TensorFlow's files, and NumPy archives."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from ..._errors import CheckpointError
from ..caffe import load_caffe
from ._checkpoint_layout import (
    CALLBACK_FILES,
    MANIFEST,
    STATE,
    VARIABLES,
    is_complete,
)
from ._manifest import check_files, read_json, read_manifest
from ._pointers import latest_checkpoint, target_of
from ._tensor_file import read_tensors

__all__ = ["Checkpoint", "load_variables", "read_checkpoint"]

_OF_KERAS = (".h5", ".hdf5", ".keras")


@final
@attrs.frozen
class Checkpoint:
    """The contents of a checkpoint directory.

    Attributes:
        path: the directory.
        variables: arrays by variable name.
        state: all other data, as passed to `write_checkpoint`.
        versions: versions of Python, NumPy and TensorFlow that wrote it.
    """

    path: Path
    variables: dict[str, np.ndarray] = attrs.field(repr=lambda variables: f"<{len(variables)} variables>")
    state: dict[str, Any] = attrs.field(repr=False)
    versions: dict[str, str]

    @property
    def callback_files(self) -> Path:
        """The directory with a folder for each callback that wrote files; absent without such files."""
        return self.path / CALLBACK_FILES


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and checks a checkpoint directory, or the latest checkpoint in a log directory.

    Raises:
        CheckpointError: the checkpoint is missing, incomplete, damaged, or of an unknown format.
    """
    directory = Path(path)
    if not is_complete(directory):
        latest = target_of(directory) or latest_checkpoint(directory)
        if latest is None:
            raise CheckpointError(
                f"{directory} is not a checkpoint and contains none. Expected a directory with {MANIFEST}, "
                "such as train_log/run/model-1000, or a directory of such directories."
            )
        directory = latest
    manifest = read_manifest(directory)
    check_files(directory, manifest)
    return Checkpoint(
        path=directory,
        variables=read_tensors(directory / VARIABLES),
        state=read_json(directory / STATE),
        versions=manifest["versions"],
    )


def load_variables(path: str | Path) -> dict[str, np.ndarray]:
    """Reads arrays by variable name from a checkpoint, an archive or a Caffe model.

    Args:
        path: a checkpoint or log directory of this package, a TensorFlow checkpoint (its prefix, one of its
            files, or a directory with a `checkpoint` file), a `.npz` archive, or a `.caffemodel`, read by
            `load_caffe`. Variables written by `tf.train.Checkpoint` keep their names, such as "fc0/kernel";
            variables that share a name are named by their object paths.

    Raises:
        CheckpointError: `path` cannot be read as any of these.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix in _OF_KERAS:
        raise CheckpointError(
            f"{path} is a Keras file. Read it with Keras in eager mode: model = "
            "keras.saving.load_model(path), or model.load_weights(path). Then pass the model: "
            "use_keras(model) starts from its weights; or restore "
            "{variable.path: variable.numpy() for variable in model.variables}."
        )
    if path.suffix == ".caffemodel":
        return load_caffe(path)
    if target_of(path) is not None or latest_checkpoint(path) is not None:
        return read_checkpoint(path).variables
    if path.name == "checkpoint" or path.is_dir():
        return read_tensors(_latest_of_tensorflow(path if path.is_dir() else path.parent))
    for suffix in (".index", ".meta"):
        path = path.with_name(path.name.removesuffix(suffix))
    return read_tensors(path.with_name(path.name.split(".data-")[0]))


def _latest_of_tensorflow(directory: Path) -> Path:
    # Not by latest_checkpoint(), which interprets brackets in a path as a pattern.
    try:
        state = tf.train.get_checkpoint_state(str(directory))
    except ValueError as error:
        raise CheckpointError(f"{directory} cannot be read: {error}.") from error
    prefix = Path(state.model_checkpoint_path) if state is not None and state.model_checkpoint_path else None
    if prefix is None or not (prefix.exists() or prefix.with_name(f"{prefix.name}.index").exists()):
        raise CheckpointError(f"{directory} refers to a TensorFlow checkpoint that does not exist.")
    return prefix


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path), np.load(path) as archive:
            return {name.removesuffix(":0"): archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise CheckpointError(f"{path} cannot be read as a NumPy archive: {error}.") from error
