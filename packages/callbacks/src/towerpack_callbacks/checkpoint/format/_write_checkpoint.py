"""Writes a checkpoint directory from arrays and a state, atomically."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..._errors import CheckpointWriteError
from ...writing import replace_directory, sync
from ._checkpoint_layout import MANIFEST, STATE, VARIABLES, hidden_name
from ._exact_json import state_to_json
from ._files_on_disk import files_below, is_shared
from ._manifest import make_manifest
from ._tensor_file import TensorFile

__all__ = [
    "begin_checkpoint",
    "encode_state",
    "not_written",
    "removed_after_error",
    "write_checkpoint",
    "write_files",
]


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
