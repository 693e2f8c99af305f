"""Reads and writes checkpoint directories."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, final
from urllib.parse import quote, unquote

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from ..._errors import CheckpointError, CheckpointWriteError
from ...writing._atomic_write import replace_directory, sync
from .._caffe import load_caffe
from .._keras_file import read_keras
from .._safetensors import read_safetensors
from .._torch_file import read_torch
from ._manifest import (
    CALLBACK_FILES,
    MANIFEST,
    STATE,
    VARIABLES,
    check_files,
    files_below,
    hidden_name,
    is_complete,
    is_shared,
    make_manifest,
    read_json,
    read_manifest,
    state_to_json,
)
from ._pointers import latest_checkpoint, target_of
from ._tensor_file import TensorFile, read_tensors

__all__ = [
    "Checkpoint",
    "add_files",
    "begin_checkpoint",
    "encode_state",
    "folder_of",
    "key_of",
    "load_variables",
    "not_written",
    "read_checkpoint",
    "removed_after_error",
    "write_checkpoint",
    "write_files",
]

_log = logging.getLogger("towerpack_callbacks")

_READERS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    ".caffemodel": load_caffe,
    ".safetensors": read_safetensors,
    **dict.fromkeys((".pth", ".pt"), read_torch),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), read_keras),
}


@final
@attrs.frozen
class Checkpoint:
    """The contents of a checkpoint directory.

    Attributes:
        path: the directory.
        variables: arrays by variable name.
        state: all other data, as passed to `write_checkpoint`.
        versions: versions of Python, NumPy and TensorFlow that wrote it.

    Example:
        >>> import tempfile
        >>> from towerpack_callbacks.checkpoint import read_checkpoint, write_checkpoint
        >>> path = Path(tempfile.mkdtemp()) / "kept"
        >>> _ = write_checkpoint(path, {"weight": np.ones(2)}, {"note": "first"})
        >>> checkpoint = read_checkpoint(path)
        >>> checkpoint.variables["weight"], checkpoint.state
        (array([1., 1.]), {'note': 'first'})
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
    """Reads arrays by variable name from a checkpoint, an archive or weights of another library.

    Args:
        path: a checkpoint or log directory of this package, a TensorFlow checkpoint (its prefix, one of its
            files, or a directory with a `checkpoint` file), a `.npz` archive, `.safetensors`, a state dict of
            PyTorch (`.pth`, `.pt`), weights or a model of Keras (`.h5`, `.weights.h5`, `.keras`), or a
            `.caffemodel`, read by `load_caffe`. Variables written by `tf.train.Checkpoint` keep their names,
            such as "fc0/kernel"; variables that share a name are named by their object paths.
            `load_weights` also converts names and axes.

    Raises:
        CheckpointError: `path` cannot be read as any of these.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return _read_npz(path)
    if read := _READERS.get(path.suffix):
        return read(path)
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


def write_checkpoint(path: Path, variables: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint directory.

    Args:
        path: the directory to create. An existing one is replaced.
        variables: arrays by variable name, at least one, of types that TensorFlow supports.
        state: all other data: numbers, strings, bytes, lists, tuples and dicts that `state_to_json` accepts.

    Returns:
        `path`.

    Raises:
        CheckpointWriteError: the disk is full, read-only, not permitted, …; there is no variable, or one has
            a type that TensorFlow lacks; or `state_to_json` refuses a part of `state`. Existing files are
            unchanged.
    """
    encoded = encode_state(path, state)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(path, str(error)) from error
    with TensorFile() as tensor_file:
        write_files(path, begin_checkpoint(path), variables, encoded, tensor_file)
    return path


def begin_checkpoint(path: Path) -> Path:
    """Creates the hidden directory that will become the checkpoint `path`, and returns its path.

    Raises:
        CheckpointWriteError: the directory cannot be created.
    """
    aside = hidden_name(path)
    try:
        aside.mkdir()
    except OSError as error:
        raise not_written(path, str(error)) from error
    return aside


@contextlib.contextmanager
def removed_after_error(aside: Path) -> Iterator[None]:
    """Removes an unfinished checkpoint if the block raises an exception."""
    try:
        yield
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def encode_state(path: Path, state: Mapping[str, Any]) -> str:
    """Encodes the state as JSON, which also serves as a copy.

    Raises:
        CheckpointWriteError: the state cannot be written as JSON; the message names the part.
    """
    try:
        return state_to_json(state)
    except TypeError as error:
        raise CheckpointWriteError(f"The checkpoint {path} could not be written: {error}") from error


def write_files(
    path: Path, aside: Path, variables: Mapping[str, np.ndarray], encoded_state: str, tensor_file: TensorFile
) -> None:
    """Does the work of `write_checkpoint`, in a directory created by `begin_checkpoint`.

    Args:
        path: the final path of the directory.
        aside: the hidden directory, which may contain callbacks' files.
        variables: arrays by variable name.
        encoded_state: from `encode_state`.
        tensor_file: the writer of the variables.

    Raises:
        CheckpointWriteError: the operating system or TensorFlow reported an error; existing files are
            unchanged.
    """
    try:
        with removed_after_error(aside):
            tensor_file.write(aside / VARIABLES, variables)
            (aside / STATE).write_text(encoded_state, encoding="utf-8")
            (aside / MANIFEST).write_text(
                json.dumps(make_manifest(aside, tf.__version__), indent=1), encoding="utf-8"
            )
            _sync_all(aside)
            replace_directory(aside, path)
    except (OSError, tf.errors.OpError) as error:
        raise not_written(path, _reason(error, aside)) from error
    except TypeError as error:
        raise CheckpointWriteError(f"The checkpoint {path} could not be written: {error}.") from error


def _sync_all(directory: Path) -> None:
    """Flushes the new files of a directory and all its directory entries to the disk."""
    directories = {directory}
    for file in files_below(directory):
        directories |= {parent for parent in file.parents if parent.is_relative_to(directory)}
        if not is_shared(file):
            sync(file)
    for changed in directories:
        sync(changed)


def not_written(path: Path, reason: str) -> CheckpointWriteError:
    """Makes the error for a failed write of a checkpoint."""
    if not path.parent.is_dir():
        return CheckpointWriteError(
            f"The checkpoint {path} could not be written: the directory {path.parent} is gone, with the "
            "checkpoints in it. Find the cause of its removal or unmount, then resume."
        )
    return CheckpointWriteError(
        f"The checkpoint {path} could not be written: {reason}. Earlier checkpoints are complete. Free "
        "space or fix the permissions of its directory, then resume."
    )


def _reason(error: Exception, aside: Path) -> str:
    """Returns the text of an error; for TensorFlow's multi-line errors, the line that names the file."""
    text = str(error)
    return next((line for line in text.splitlines() if line.startswith(str(aside))), text)


_LONGEST = 200  # of a name, in bytes; file systems take 255


def folder_of(key: str) -> str:
    """Returns the name of the folder for one callback's files, unique for each key.

    Args:
        key: the callback's key in the states of a checkpoint.

    Example:
        >>> folder_of("Memory('a/b')#2")
        'Memory%28%27a%2Fb%27%29#2'
    """
    name = quote(key, safe="#").replace(".", "%2E")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def key_of(folder: str) -> str:
    """Returns the key of a folder for display; a long key is truncated."""
    return unquote(folder)


def add_files(path: Path, aside: Path, save: Callable[[Path], None]) -> None:
    """Makes callbacks add their files to an unfinished checkpoint.

    Args:
        path: the final path of the checkpoint.
        aside: the directory in which it is created.
        save: called with the path of the parent directory of all callbacks' folders, which does not exist
            yet.

    Raises:
        CheckpointWriteError: the operating system reported an error, or a callback wrote something that is
            not a file.
    """
    directory = aside / CALLBACK_FILES
    try:
        save(directory)
        strange = next((file for file in files_below(directory) if not _is_plain(file)), None)
    except OSError as error:
        raise not_written(path, str(error)) from error
    if strange is not None:
        key = key_of(strange.relative_to(directory).parts[0])
        raise CheckpointWriteError(
            f"The checkpoint {path} could not be written: save_files() of the callback {key} wrote "
            f"{strange.name}, which is a symbolic link or not a file. Copy files into the directory, or "
            "link them with os.link."
        )


def _is_plain(file: Path) -> bool:
    return file.is_file() and not os.path.islink(file)
