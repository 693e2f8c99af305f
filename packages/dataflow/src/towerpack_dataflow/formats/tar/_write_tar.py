"""Writes tar files of samples with their index."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

from ... import _argument_checks as arguments
from ..._errors import ArgumentError
from ...storage import URL, create_file, open_url
from .._plain_values import with_progress
from ._tar_members import key_of, scan, store_index

__all__ = ["index_tar", "write_tar", "write_tar_shards"]

_KEY = "__key__"
_HEAD = 1024  # largest overhead of a member in bytes: its header, and the padding of its last block


def write_tar(samples: Iterable[Mapping[str, Any]], path: URL) -> None:
    """Writes a tar file of samples and its index, both atomically.

    Args:
        samples: dicts of bytes (or text) by the extensions of the members' names, such as `"jpg"`, and the
            key, a string, as `"__key__"`.
        path: path of the file. An existing file is replaced.

    Raises:
        ArgumentError: a sample has no key or the key of the previous one, has values other than bytes or
            text, or would be read with another key or other extensions.
        OSError: the file cannot be written.
    """
    before = None
    with (
        create_file(path) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for number, sample in enumerate(with_progress(samples, f"writing {os.path.basename(path)}")):
            key, members = _checked(sample, number)
            if key == before:
                raise ArgumentError(
                    f"sample {number} has the same key as the previous one, {key!r}; keys separate samples"
                )
            before = key
            for extension, content in members.items():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    index_tar(path)


def write_tar_shards(samples: Iterable[Mapping[str, Any]], pattern: str, max_bytes: int = 2**30) -> list[str]:
    """Writes samples to several tar files, each with its index.

    Args:
        samples: as in `write_tar`.
        pattern: names of the files, with a field for their number: `"train-{:05d}.tar"`.
        max_bytes: size limit of a file, unless a single sample is larger.

    Returns:
        the paths of the files.

    Raises:
        ArgumentError: as for `write_tar`; or `pattern` has no field for a number.
        OSError: a file cannot be written; earlier files are complete.
    """
    arguments.count("max_bytes", max_bytes)
    try:
        same = pattern.format(0) == pattern.format(1)
    except (LookupError, ValueError, TypeError, AttributeError):
        same = True
    if same:
        raise ArgumentError(f"pattern={pattern!r}: expected a field for a number, such as train-{{:05d}}.tar")
    paths: list[str] = []
    shard: list[Mapping[str, Any]] = []
    size = 0
    for number, sample in enumerate(samples):
        own = sum(len(content) + _HEAD for content in _checked(sample, number)[1].values())
        if shard and size + own > max_bytes:
            paths.append(_written(shard, pattern, len(paths)))
            shard, size = [], 0
        shard.append(sample)
        size += own
    if shard:
        paths.append(_written(shard, pattern, len(paths)))
    return paths


def index_tar(path: URL) -> int:
    """Writes the index of a tar file, `<path>.index`, so that flows over the file are created at once.

    The index records its format and version, and identifies the file, so that a flow detects a replaced one.

    Returns:
        the number of samples.

    Raises:
        FormatError: the file is not a tar file, is truncated or compressed.
        OSError: the file cannot be read, or the index cannot be written.
    """
    with open_url(path) as file:
        index = scan(file)
        store_index(file, index)
    return len(index.samples) - 1


def _written(shard: list[Mapping[str, Any]], pattern: str, number: int) -> str:
    path = pattern.format(number)
    write_tar(shard, path)
    return path


def _checked(sample: Mapping[str, Any], number: int) -> tuple[str, dict[str, bytes]]:
    key = sample.get(_KEY) if isinstance(sample, Mapping) else None
    if not isinstance(key, str) or key_of(f"{key}.x") != (key, "x") or not _is_name(key):
        raise ArgumentError(
            f"sample {number} must be a dict with a key, {_KEY!r}, text without a dot in its last part, "
            f"not of the form '__…__' and without NUL; received {sample!r:.80}"
        )
    members = {}
    for extension, content in sample.items():
        if extension == _KEY:
            continue
        if not isinstance(extension, str) or key_of(f"{key}.{extension}") != (key, extension):
            raise ArgumentError(f"sample {number} has the extension {extension!r}; expected text without '/'")
        members[extension] = _bytes_of(content, f"sample {number}: {extension!r}")
        if not _is_name(extension):
            raise ArgumentError(f"sample {number} has the extension {extension!r}; expected text in UTF-8")
    if not members:
        raise ArgumentError(f"sample {number} has no members, only a key")
    return key, members


def _bytes_of(content: Any, name: str) -> bytes:
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"{name} is text that UTF-8 cannot encode ({error}); pass bytes") from error
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"{name} must be bytes or text; received {type(content).__name__}")
    return bytes(content)


def _is_name(text: str) -> bool:
    """Returns whether a tar file can store a name; Python's escapes for bytes outside UTF-8 are allowed."""
    try:
        return (
            "\0" not in text
            and text.encode(errors="surrogateescape").decode(errors="surrogateescape") == text
        )
    except UnicodeEncodeError:
        return False
