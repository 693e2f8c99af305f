"""Files of a memory in a checkpoint: sealed segments are linked, all else is copied and checksummed."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import ArgumentError, SegmentError
from ..storage._atomic_file import NOT_INHERITED
from ._segments import CONTENTS, LOCK, Segment, Segments, checksum, segment_name

__all__ = [
    "check_segments",
    "check_target",
    "disk_usage",
    "read_arrays",
    "read_contents",
    "restore_segments",
    "save_segments",
    "write_arrays",
    "write_contents",
]

_KEYS = {"version", "of", "count", "rows", "segments", "arrays", "crc32"}


def check_target(directory: Path) -> None:
    """Creates the directory for a saved memory and checks that it has no files of another one.

    Raises:
        ArgumentError: the directory has files of another memory.
        OSError: the directory cannot be created.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in (CONTENTS, LOCK):
        if (directory / name).exists():
            raise ArgumentError(
                f"directory must not have files of a memory; received {str(directory)!r}, which has "
                f"{name!r}. Save each state into a new directory, and not into that of the memory"
            )


def save_segments(segments: Segments, rows: tuple[int, int], length: int, directory: Path) -> dict[str, Any]:
    """Writes the segments with these rows to a directory; returns the data for `restore_segments`.

    Raises:
        OSError: the directory cannot be written to.
    """
    saved = {}
    first, last = rows[0] // length, -(-rows[1] // length)
    for number in range(first, last):
        path, used = directory / segment_name(number), min(rows[1] - number * length, length)
        segment = segments.files[number]
        if not (segment.sealed() and segment.path is not None and segments.linked(segment.path, path)):
            _copy(segments.parts_of(number, used), segments, path)
        found = segment.checksum
        saved[segment_name(number)] = {
            "rows": used,
            "crc32": checksum(segments.parts_of(number, used)) if found is None else found,
        }
    return saved


def restore_segments(segments: Segments, saved: Mapping[str, Any], length: int, directory: Path) -> None:
    """Maps saved segments, already verified by `check_segments`, into `segments`.

    Raises:
        OSError: a file cannot be linked, copied or mapped.
    """
    for name, entry in saved.items():
        number = int(name.partition("-")[2].partition(".")[0])
        target = segments.path_of(number)
        if entry["rows"] == length and target is not None:
            if not segments.linked(directory / name, target):
                shutil.copyfile(directory / name, target)
                os.chmod(target, 0o444)
            descriptor = os.open(target, os.O_RDONLY | NOT_INHERITED)
            segments.show(number, Segment(descriptor, target, entry["crc32"]))
        else:
            segments.open(number)
            found = segments.parts_in(np.memmap(directory / name, np.uint8, "r"), entry["rows"])
            for part, theirs in zip(segments.parts_of(number, entry["rows"]), found):
                part[:] = theirs
            if entry["rows"] == length:
                segments.seal(number)


def write_arrays(arrays: Mapping[str, np.ndarray], directory: Path) -> dict[str, Any]:
    """Writes arrays to separate files; returns the data for `read_arrays`."""
    saved = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        _flushed(directory / f"{name}.bin", array.reshape(-1).view(np.uint8).data)
        shape, crc = list(array.shape), zlib.crc32(array.reshape(-1).view(np.uint8).data)
        saved[f"{name}.bin"] = {"dtype": array.dtype.str, "shape": shape, "crc32": crc}
    return saved


def read_arrays(saved: Mapping[str, Any], directory: Path) -> dict[str, np.ndarray]:
    """Returns the arrays written by `write_arrays`.

    Raises:
        SegmentError: a file is missing or damaged.
    """
    arrays = {}
    for name, entry in saved.items():
        data = _read(directory / name)
        if zlib.crc32(data) != entry["crc32"]:
            raise _damaged(directory / name, "its checksum differs")
        arrays[name.removesuffix(".bin")] = np.frombuffer(data, entry["dtype"]).reshape(entry["shape"]).copy()
    return arrays


def write_contents(contents: Mapping[str, Any], directory: Path) -> None:
    """Writes the table of contents, as the last file of the directory, and flushes the directory."""
    text = json.dumps({**contents, "crc32": _checksum_of(contents)})
    _flushed(directory / CONTENTS, text.encode())
    descriptor = os.open(directory, os.O_RDONLY | NOT_INHERITED)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_contents(directory: Path) -> dict[str, Any]:
    """Returns the table written by `write_contents`.

    Raises:
        SegmentError: the file is missing or damaged.
    """
    path = directory / CONTENTS
    try:
        contents = dict(json.loads(_read(path)))
    except (TypeError, ValueError) as error:
        raise _damaged(path, "it is not JSON") from error
    if not contents.keys() <= _KEYS:
        raise _damaged(path, f"it has the keys {sorted(contents)}")
    kept = contents.pop("crc32", None)
    if kept is not None and kept != _checksum_of(contents):  # earlier releases wrote none
        raise _damaged(path, "its checksum differs")
    return contents


def _checksum_of(contents: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(contents, sort_keys=True).encode())


def check_segments(saved: Mapping[str, Any], segments: Segments, directory: Path) -> None:
    """Checks that all segments are present and undamaged.

    Raises:
        SegmentError: a segment is missing or damaged; the message names it.
    """
    for name, entry in saved.items():
        path = directory / name
        try:
            size = path.stat().st_size
            found = np.memmap(path, np.uint8, "r") if size else None
        except OSError as error:
            raise _damaged(path, f"it cannot be read ({error.strerror})") from error
        if found is None or size != segments.file_size:
            raise _damaged(path, f"it has {size} bytes, but {segments.file_size} were written")
        if checksum(segments.parts_in(found, entry["rows"])) != entry["crc32"]:
            raise _damaged(path, "its checksum differs")


def disk_usage(*directories: str | os.PathLike[str]) -> int:
    """Returns the disk usage of directories together in bytes, with each file counted once.

    Checkpoints share the sealed segments of a memory by hard links, so the sum of their sizes is far larger
    than their disk usage. The usage of all kept checkpoints is the space freed by removing all of them, as
    long as no memory has the files open.

    Args:
        directories: such as the checkpoints of a run; symbolic links in them are not followed.

    Raises:
        OSError: a directory does not exist, or cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     disk_usage(empty)
        0
    """
    held = {
        (status.st_dev, status.st_ino): status.st_blocks * 512
        for directory in directories
        for status in _files_below(Path(directory))
    }
    return sum(held.values())


def _files_below(directory: Path) -> Iterator[os.stat_result]:
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            # os.stat, because an entry's own stat() may have been read before the file grew.
            yield os.stat(entry.path, follow_symlinks=False)


def _copy(parts: list[np.ndarray], segments: Segments, path: Path) -> None:
    """Writes the rows of a segment at the same positions as in its own file."""
    with open(path, "xb") as file:
        file.truncate(segments.file_size)
        for part, offset in zip(parts, segments.offsets):
            file.seek(offset)
            file.write(part.data)
        file.flush()
        os.fsync(file.fileno())


def _flushed(path: Path, data: bytes | memoryview) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error


def _damaged(path: Path, why: str) -> SegmentError:
    return SegmentError(
        f"{path} is not a file saved there by a memory: {why}. Use an earlier checkpoint, or start "
        "with an empty memory"
    )
