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
    """Makes the directory that a memory is saved into, and checks that it has no files of another one.

    Raises:
        ArgumentError: it has.
        OSError: it cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in (CONTENTS, LOCK):
        if (directory / name).exists():
            raise ArgumentError(
                f"directory is one without files of a memory; received {str(directory)!r}, which has "
                f"{name!r}. Save each state into a new directory, and not into that of the memory"
            )


def save_segments(segments: Segments, rows: tuple[int, int], length: int, directory: Path) -> dict[str, Any]:
    """Puts the segments with these rows into a directory; returns what `restore_segments` has to know.

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
    """Shows saved segments, which `check_segments` has found to be whole, as `segments` has shown them.

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
            descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            segments.show(number, Segment(descriptor, target, entry["crc32"]))
        else:
            segments.open(number)
            found = segments.parts_in(np.memmap(directory / name, np.uint8, "r"), entry["rows"])
            for part, theirs in zip(segments.parts_of(number, entry["rows"]), found):
                part[:] = theirs
            if entry["rows"] == length:
                segments.seal(number)


def write_arrays(arrays: Mapping[str, np.ndarray], directory: Path) -> dict[str, Any]:
    """Writes arrays to files of their own; returns what `read_arrays` has to know."""
    saved = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        _flushed(directory / f"{name}.bin", array.reshape(-1).view(np.uint8).data)
        shape, crc = list(array.shape), zlib.crc32(array.reshape(-1).view(np.uint8).data)
        saved[f"{name}.bin"] = {"dtype": array.dtype.str, "shape": shape, "crc32": crc}
    return saved


def read_arrays(saved: Mapping[str, Any], directory: Path) -> dict[str, np.ndarray]:
    """Returns what `write_arrays` has written.

    Raises:
        SegmentError: a file is missing, or is not as it was written.
    """
    arrays = {}
    for name, entry in saved.items():
        data = _read(directory / name)
        if zlib.crc32(data) != entry["crc32"]:
            raise _damaged(directory / name, "its checksum is another one")
        arrays[name.removesuffix(".bin")] = np.frombuffer(data, entry["dtype"]).reshape(entry["shape"]).copy()
    return arrays


def write_contents(contents: Mapping[str, Any], directory: Path) -> None:
    """Writes the table of contents, as the last file of the directory, and flushes the directory."""
    text = json.dumps({**contents, "crc32": _checksum_of(contents)})
    _flushed(directory / CONTENTS, text.encode())
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_contents(directory: Path) -> dict[str, Any]:
    """Returns what `write_contents` has written.

    Raises:
        SegmentError: the file is missing, or is not as it was written.
    """
    path = directory / CONTENTS
    try:
        contents = dict(json.loads(_read(path)))
    except (TypeError, ValueError) as error:
        raise _damaged(path, "it is no JSON") from error
    if not contents.keys() <= _KEYS:
        raise _damaged(path, f"it has the keys {sorted(contents)}")
    kept = contents.pop("crc32", None)
    if kept is not None and kept != _checksum_of(contents):  # earlier releases wrote none
        raise _damaged(path, "its checksum is another one")
    return contents


def _checksum_of(contents: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(contents, sort_keys=True).encode())


def check_segments(saved: Mapping[str, Any], segments: Segments, directory: Path) -> None:
    """Checks that segments are all there, and as they were written.

    Raises:
        SegmentError: one is not; it is named.
    """
    for name, entry in saved.items():
        path = directory / name
        try:
            size = path.stat().st_size
            found = np.memmap(path, np.uint8, "r") if size else None
        except OSError as error:
            raise _damaged(path, f"it cannot be read ({error.strerror})") from error
        if found is None or size != segments.file_size:
            raise _damaged(path, f"it has {size} bytes, and {segments.file_size} were written")
        if checksum(segments.parts_in(found, entry["rows"])) != entry["crc32"]:
            raise _damaged(path, "its checksum is another one")


def disk_usage(*directories: str | os.PathLike[str]) -> int:
    """Returns the bytes that directories hold on the disk together, each file once.

    Checkpoints share the sealed segments of a memory by hard links, so the sum of their sizes says far more
    than the disk holds. What all kept checkpoints hold is what is freed when all of them are removed, as long
    as no memory has the files open.

    Args:
        directories: such as the checkpoints of a run; symbolic links in them are not followed.

    Raises:
        OSError: a directory is not there, or cannot be read.

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
            # os.stat, as an entry's own stat() may have been read before the file grew.
            yield os.stat(entry.path, follow_symlinks=False)


def _copy(parts: list[np.ndarray], segments: Segments, path: Path) -> None:
    """Writes the rows of a segment where they are in its own file."""
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
        f"{path} is not the file that a memory has saved there: {why}. Take an earlier checkpoint, or begin "
        "with an empty memory"
    )
