"""Makes a checkpoint directory out of arrays and a state, whole or not at all."""

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
        path: the directory to make. If it is there already, it is replaced.
        variables: arrays by variable name, at least one, of types that TensorFlow has.
        state: whatever else must be kept: numbers, strings, bytes, lists, tuples and dicts, as
            `state_to_json` takes them.

    Returns:
        `path`.

    Raises:
        CheckpointWriteError: the disk is full, read-only, not permitted, …, or there is no variable, or one
            of a type that TensorFlow lacks, or `state` holds something that `state_to_json` refuses; nothing
            was changed.
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
    """Makes the hidden directory that will be the checkpoint `path`, and returns where it is.

    Raises:
        CheckpointWriteError: it cannot be made.
    """
    aside = hidden_name(path)
    try:
        aside.mkdir()
    except OSError as error:
        raise not_written(path, str(error)) from error
    return aside


@contextlib.contextmanager
def removed_after_error(aside: Path) -> Iterator[None]:
    """Removes an unfinished checkpoint if the block raises anything."""
    try:
        yield
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def encode_state(path: Path, state: Mapping[str, Any]) -> str:
    """Returns the state as JSON, which is a copy of it, too.

    Raises:
        CheckpointWriteError: JSON cannot express it; the message names the part.
    """
    try:
        return state_to_json(state)
    except TypeError as error:
        raise CheckpointWriteError(f"The checkpoint {path} could not be written: {error}") from error


def write_files(
    path: Path, aside: Path, variables: Mapping[str, np.ndarray], encoded_state: str, tensor_file: TensorFile
) -> None:
    """Does the work of `write_checkpoint`, in a directory that `begin_checkpoint` has made.

    Args:
        path: the name that the directory gets.
        aside: the directory, in which files of callbacks may be.
        variables: arrays by variable name.
        encoded_state: from `encode_state`.
        tensor_file: the writer of the variables.

    Raises:
        CheckpointWriteError: whatever the operating system or TensorFlow refused; nothing was changed.
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
    """Flushes what is new in a directory to the disk: files, and the names in it and in those below."""
    directories = {directory}
    for file in files_below(directory):
        directories |= {parent for parent in file.parents if parent.is_relative_to(directory)}
        if not is_shared(file):
            sync(file)
    for changed in directories:
        sync(changed)


def not_written(path: Path, reason: str) -> CheckpointWriteError:
    """Makes the error for what the system refused while a checkpoint was written."""
    if not path.parent.is_dir():
        return CheckpointWriteError(
            f"The checkpoint {path} could not be written: the directory {path.parent} is gone, and the "
            "checkpoints that were in it. Find out what removes or unmounts it, then resume."
        )
    return CheckpointWriteError(
        f"The checkpoint {path} could not be written: {reason}. Earlier checkpoints are whole. "
        "Free space or fix the permissions of its directory, then resume."
    )


def _reason(error: Exception, aside: Path) -> str:
    """Returns the text of an error; of TensorFlow's many lines, the one that names the file."""
    text = str(error)
    return next((line for line in text.splitlines() if line.startswith(str(aside))), text)
