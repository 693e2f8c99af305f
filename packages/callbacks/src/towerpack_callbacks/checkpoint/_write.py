"""Writes a checkpoint so that it is there as a whole or not at all."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import CheckpointWriteError
from ._layout import MANIFEST, STATE, VARIABLES, aside_prefix

__all__ = ["FORMAT", "crc32", "point_to", "write_checkpoint"]

FORMAT = 1


def write_checkpoint(path: Path, variables: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint directory.

    Args:
        path: the directory to make. If it is there already, it is replaced.
        variables: arrays by variable name.
        state: whatever else must be kept, as JSON values.

    Returns:
        `path`.

    Raises:
        CheckpointWriteError: the disk is full, read-only, not permitted, …, or `state` holds something that
            JSON cannot express; nothing was changed.
    """
    encoded = _encode(path, state)
    aside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f"{aside_prefix}{path.name}-", dir=path.parent))
        aside.chmod(0o777 & ~_umask())
        _save_variables(aside / VARIABLES, variables)
        (aside / STATE).write_text(encoded, encoding="utf-8")
        (aside / MANIFEST).write_text(json.dumps(_manifest(aside), indent=1), encoding="utf-8")
        for file in aside.iterdir():
            _sync(file)
        _sync(aside)
        _rename(aside, path)
    except (OSError, tf.errors.OpError) as error:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointWriteError(
            f"The checkpoint {path} could not be written: {error}. Earlier checkpoints are whole. "
            "Free space or fix the permissions of its directory, then resume."
        ) from error
    return path


def point_to(pointer: Path, target: Path) -> None:
    """Makes the symbolic link `pointer` lead to `target`, in the same directory, in one atomic step."""
    aside = pointer.with_name(f"{aside_prefix}{pointer.name}-{os.getpid()}")
    try:
        aside.unlink(missing_ok=True)
        aside.symlink_to(target.name)
        os.replace(aside, pointer)
        _sync(pointer.parent)
    except OSError as error:
        raise CheckpointWriteError(
            f"The link {pointer} could not be set to {target.name}: {error}."
        ) from error


def _encode(path: Path, state: Mapping[str, Any]) -> str:
    try:
        return json.dumps(state, indent=1)
    except TypeError as error:
        raise CheckpointWriteError(
            f"The checkpoint {path} could not be written: {_find_culprit(state)}, which JSON cannot express. "
            "Let state_dict() return numbers, strings, lists and dicts of Python's own."
        ) from error


def _find_culprit(value: Any, where: str = "state") -> str:
    """Names the first part of a state that JSON cannot express."""
    parts: Any = value.items() if isinstance(value, Mapping) else ()
    if isinstance(value, (list, tuple)):
        parts = enumerate(value)
    for key, part in parts:
        try:
            json.dumps(part)
        except TypeError:
            return _find_culprit(part, f"{where}[{key!r}]")
    return f"{where} is {value!r} of type {type(value).__name__}"


def _save_variables(prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
    # A graph and session of its own: the training graph is final, and may be running.
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as sess:
        names = sorted(variables)
        arrays = [np.asarray(variables[name]) for name in names]
        tensors = [tf.placeholder(array.dtype, array.shape) for array in arrays]
        save = tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        )
        sess.run(save, dict(zip(tensors, arrays)))


def _manifest(directory: Path) -> dict[str, Any]:
    files = {
        file.name: {"bytes": file.stat().st_size, "crc32": crc32(file)}
        for file in sorted(directory.iterdir())
    }
    versions = {"python": platform.python_version(), "numpy": np.__version__, "tensorflow": tf.__version__}
    return {"format": FORMAT, "files": files, "versions": versions}


def crc32(file: Path) -> int:
    """The CRC-32 of a file's bytes."""
    checksum = 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _rename(aside: Path, path: Path) -> None:
    if path.exists():
        # rename() replaces no directory that has files in it.
        old = Path(tempfile.mkdtemp(prefix=f"{aside_prefix}old-", dir=path.parent))
        os.rename(path, old / path.name)
        os.rename(aside, path)
        shutil.rmtree(old)
    else:
        os.rename(aside, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
