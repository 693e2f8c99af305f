"""The files of a `DiskCache`: consecutive records, and an index once all are written."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import CacheError

__all__ = ["MARK", "ROW", "Index", "check_directory", "read_index", "write_index"]

_log = logging.getLogger("towerpack_dataflow")

_FORMAT, _VERSION = "towerpack-cache", 1
_NAMES = ("data", "index", "index.new")
_RECORD = b"\x80\x05"  # the first bytes of each record: a pickle of protocol 5

MARK = b"towerpack-cache\n"
"""The content of the file `lock`, which identifies the directory of a cache."""

ROW = np.dtype([("offset", "<i8"), ("size", "<i8"), ("crc32", "<u4")])
"""Offset, size and checksum of a record; a negative size marks a datapoint that is not stored."""


class Index(NamedTuple):
    """The content of an index file.

    Attributes:
        identity: identifies the flow and the pass of the datapoints.
        rows: one for each datapoint of that pass.
    """

    identity: Mapping[str, Any]
    rows: np.ndarray


def read_index(path: Path) -> Index | None:
    """Reads an index; returns `None` if it is missing or damaged, and logs damage.

    Raises:
        CacheError: the index has a version that this release does not read.
        OSError: the file exists but cannot be read.
    """
    try:
        header, _, table = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    try:
        head = json.loads(header)
        found = head["format"], head["version"]
        rows = np.frombuffer(table, ROW)
        whole = len(rows) == head["count"] and zlib.crc32(table) == head["crc32"]
        identity = head["identity"]
    except (ValueError, KeyError, TypeError):
        found, whole = (_FORMAT, _VERSION), False
    if found != (_FORMAT, _VERSION):
        raise CacheError(
            f"{path} has format {found[0]!r}, version {found[1]!r}; this release reads {_FORMAT!r}, version "
            f"{_VERSION}. Use another directory, or remove this one"
        )
    if not whole:
        _log.warning("%s is damaged; rebuilding the cache", path)
        return None
    return Index(identity, rows)


def check_directory(directory: Path) -> None:
    """Checks that files to be replaced were made by a cache.

    Raises:
        CacheError: one was made by another program, or is a symbolic link; nothing is changed.
        OSError: a file cannot be read.
    """
    there = [name for name in ("lock", *_NAMES) if os.path.lexists(directory / name)]
    lock = (directory / "lock").read_bytes() if "lock" in there else None
    made = lock == MARK or (lock == b"" and _has_records(directory / "data"))  # earlier releases: no mark
    foreign = [name for name in there if (directory / name).is_symlink() or not made]
    if foreign and (lock != b"" or there != ["lock"]):
        raise CacheError(
            f"{directory} is not the directory of a cache: it contains {foreign[0]!r}, which no cache has "
            "made; nothing was changed. Use another directory"
        )


def _has_records(path: Path) -> bool:
    """Returns whether a file may be the records of a cache of an earlier release."""
    if not path.is_file():
        return not path.exists()
    with path.open("rb") as file:
        return file.read(len(_RECORD)) in (b"", _RECORD)


def write_index(path: Path, index: Index) -> None:
    """Writes an index atomically.

    Raises:
        OSError: it cannot be written.
    """
    table = index.rows.tobytes()
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": index.identity,
        "count": len(index.rows),
        "crc32": zlib.crc32(table),
    }
    unfinished = path.with_suffix(".new")
    try:
        with unfinished.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + table)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
