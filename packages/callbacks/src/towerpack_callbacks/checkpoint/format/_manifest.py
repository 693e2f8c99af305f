"""The manifest of a checkpoint: its files, their sizes, and the writer's versions. Needs no TensorFlow."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import CheckpointError
from ._checkpoint_layout import MANIFEST, STATE, VARIABLES
from ._exact_json import state_from_json
from ._files_on_disk import files_below, is_shared

__all__ = ["check_files", "make_manifest", "read_json", "read_manifest", "wrong_file"]

_FORMAT = 1


def make_manifest(directory: Path, tensorflow: str) -> dict[str, Any]:
    """Describes all files below a directory.

    The format number is that of checkpoints without callbacks' files. A release without support for such
    files also has no callback that reads them, and finds all other files in their usual place.

    Args:
        directory: the checkpoint, without its manifest.
        tensorflow: version of TensorFlow.
    """
    files = {}
    for file in files_below(directory):
        name = file.relative_to(directory).as_posix()
        files[name] = {"bytes": file.stat().st_size}
        # TensorFlow's index has a checksum of each tensor, which its reader verifies.
        if not name.startswith(f"{VARIABLES}.data-") and not is_shared(file):
            files[name]["crc32"] = _file_crc32(file)
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tensorflow": tensorflow,
        "towerpack-callbacks": _own_version(),
    }
    manifest = {"format": _FORMAT, "files": files, "versions": versions}
    return {**manifest, "crc32": _manifest_crc32(manifest)}


def _manifest_crc32(manifest: Mapping[str, Any]) -> int:
    """Computes the CRC-32 of a manifest's content without its own checksum."""
    content = {key: value for key, value in manifest.items() if key != "crc32"}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _own_version() -> str:
    try:
        return importlib.metadata.version("towerpack-callbacks")
    except importlib.metadata.PackageNotFoundError:  # the sources run without being installed
        return "unknown"


def _file_crc32(file: Path) -> int:
    """Computes the CRC-32 of a file's bytes."""
    checksum = 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def wrong_file(directory: Path) -> str | None:
    """Returns the first file that is missing or whose size differs from the manifest, or None.

    An unreadable manifest counts as such a file. Contents are not read, unlike in `read_checkpoint`.
    """
    try:
        manifest = read_manifest(directory)
    except CheckpointError:
        return MANIFEST
    sizes = {name: expected["bytes"] for name, expected in manifest["files"].items()}
    return next((name for name, size in sizes.items() if not _is_whole(directory / name, size)), None)


def read_manifest(directory: Path) -> dict[str, Any]:
    """Reads the manifest of a checkpoint.

    Raises:
        CheckpointError: the manifest is damaged, or of an unknown format.
    """
    manifest = read_json(directory / MANIFEST)
    number = manifest.get("format")
    if isinstance(number, int) and number != _FORMAT:
        versions = manifest.get("versions")
        writer = versions.get("towerpack-callbacks") if isinstance(versions, dict) else None
        raise CheckpointError(
            f"{directory} has format {number!r}; this version reads format {_FORMAT}. Read it with the "
            f"release that wrote it: towerpack-callbacks {writer or 'of that time'}."
        )
    if not _is_manifest(manifest):
        raise CheckpointError(
            f"{directory / MANIFEST} is damaged: it is not the manifest of a checkpoint. Resume from "
            "another checkpoint."
        )
    return manifest


def _is_manifest(manifest: dict[str, Any]) -> bool:
    """Whether it has the parts of a manifest, and a correct checksum; earlier releases wrote no checksum."""
    if set(manifest) - {"crc32"} != {"format", "files", "versions"}:
        return False
    files, versions = manifest["files"], manifest["versions"]
    if not isinstance(files, dict) or not isinstance(versions, dict):
        return False
    if not {STATE, f"{VARIABLES}.index"} <= set(files) or not all(map(_is_entry, files.values())):
        return False
    return "crc32" not in manifest or manifest["crc32"] == _manifest_crc32(manifest)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and {"bytes"} <= set(entry) <= {"bytes", "crc32"}


def check_files(directory: Path, manifest: dict[str, Any]) -> None:
    """Compares files with the manifest.

    Raises:
        CheckpointError: a file is missing, or its size or checksum differs.
    """
    for name, expected in manifest["files"].items():
        file = directory / name
        if not _is_whole(file, **expected):
            raise CheckpointError(
                f"{file} is missing or damaged: its size or checksum differs from {MANIFEST}. Resume from "
                "another checkpoint."
            )


def _is_whole(file: Path, bytes: int, crc32: int | None = None) -> bool:
    if not file.is_file() or file.stat().st_size != bytes:
        return False
    # The index of the variables contains their checksums; a linked file has its checksum where it was
    # written.
    return crc32 is None or _file_crc32(file) == crc32


def read_json(file: Path) -> dict[str, Any]:
    """Reads a file with a JSON object, which may contain tagged types that JSON lacks.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        content = state_from_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} is damaged: expected a JSON object, received {content!r:.60}.")
    return content
