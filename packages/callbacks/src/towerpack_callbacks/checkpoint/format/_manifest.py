"""The files of checkpoint directories and their manifest: JSON that keeps the exact values of a state."""

from __future__ import annotations

import base64
import contextlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import CheckpointError

__all__ = [
    "CALLBACK_FILES",
    "LATEST",
    "MANIFEST",
    "STATE",
    "VARIABLES",
    "all_checkpoints",
    "check_files",
    "checkpoint_name",
    "discard",
    "disk_usage",
    "files_below",
    "hidden_name",
    "is_complete",
    "is_named_by_step",
    "is_shared",
    "is_unfinished",
    "make_manifest",
    "read_json",
    "read_manifest",
    "readable_size",
    "remove_unfinished",
    "shown_value",
    "state_from_json",
    "state_to_json",
    "step_of",
    "wrong_file",
]

_log = logging.getLogger("towerpack_callbacks")

LATEST = "latest"
MANIFEST = "manifest.json"
STATE = "state.json"
VARIABLES = "variables"
CALLBACK_FILES = "callbacks"

# Hidden, so that a partly written directory is never mistaken for a checkpoint.
_ASIDE_PREFIX = ".writing-"

_NAME = re.compile(r"model-\d+")


def checkpoint_name(global_step: int) -> str:
    """Returns the directory name of the checkpoint of a step."""
    return f"model-{global_step}"


def hidden_name(path: Path) -> Path:
    """Returns a unique hidden name next to `path`, for unfinished or discarded directories."""
    return path.with_name(f"{_ASIDE_PREFIX}{path.name}-{os.getpid()}-{time.monotonic_ns()}")


def is_unfinished(path: Path) -> bool:
    """Returns whether `path` has a hidden name: a checkpoint in progress, or the remains of a killed run."""
    return path.name.startswith(_ASIDE_PREFIX)


def remove_unfinished(directory: Path) -> None:
    """Removes all hidden directories that a killed run has left.

    Raises:
        OSError: a directory could not be removed.
    """
    for leftover in directory.glob(f"{_ASIDE_PREFIX}*"):
        if leftover.is_symlink():
            leftover.unlink()
        else:
            shutil.rmtree(leftover)


def is_complete(path: Path) -> bool:
    """Returns whether `path` is a complete checkpoint: it has a manifest, the last file to be written."""
    return (path / MANIFEST).is_file()


def all_checkpoints(directory: str | Path) -> list[Path]:
    """Lists the complete checkpoints `model-<step>` in a directory, oldest step first."""
    named = filter(is_named_by_step, Path(directory).glob("model-*"))
    return sorted(filter(is_complete, named), key=step_of)


def is_named_by_step(path: Path) -> bool:
    """Returns whether the name is `model-<step>`."""
    return _NAME.fullmatch(path.name) is not None


def step_of(checkpoint: Path) -> int:
    """Returns the step in the name of a checkpoint `model-<step>`."""
    return int(checkpoint.name.removeprefix("model-"))


def discard(path: Path) -> None:
    """Removes an old checkpoint: first its name, in one step, then its files. A failure is logged.

    A failure loses no data; if the disk is the cause, the next write also fails.
    """
    try:
        # Not into a new directory, which a full disk could not hold.
        hidden = hidden_name(path)
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        _log.warning("The old checkpoint %s could not be removed: %s.", path, error)


_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def files_below(directory: Path) -> Iterator[Path]:
    """Yields all files and symbolic links below a directory, sorted by name.

    Files that disappear during the search are left out: a running training may remove files.

    Raises:
        OSError: the directory cannot be read.
    """
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(Path(entry.path))
            else:
                yield Path(entry.path)


def is_shared(file: Path) -> bool:
    """Returns whether a file is a hard link with several names, written by another owner.

    Its writer is responsible for its content, which may be much larger than the new part of a checkpoint.
    Therefore it is neither flushed to the disk nor given a checksum here.
    """
    return file.stat().st_nlink > 1


def disk_usage(directories: Iterable[Path]) -> int:
    """Returns the total disk usage of directories in bytes; a file with several names counts once."""
    held = {}
    for directory in directories:
        for file in files_below(directory):
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                held[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(held.values())


def readable_size(size: float) -> str:
    """Formats a number of bytes, such as "7.31 GB"."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


# An object with this key represents a value that JSON lacks: {"__towerpack__": "tuple", "of": [1, 2]}.
_TAG, _OF = "__towerpack__", "of"
_PLAIN = {int, float, bool, type(None)}
# The JSON reader merges two surrogates into one character.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_NUMPY = re.compile(r"[<>|=](?:[biufc]\d+|[mM]8(?:\[\w+\])?)")
_DEEPEST = 100
# Also whole numbers with too many digits, and values that contain themselves.
_REFUSED = (TypeError, ValueError, RecursionError)


def state_to_json(state: Mapping[str, Any]) -> str:
    """Converts a state to JSON text, from which `state_from_json` restores an equal state of the same types.

    None, bool, int, float, str, bytes, lists, tuples, dicts and NumPy's numbers, truth values, dates and
    strings are kept exactly, also as keys of dicts. JSON types are written directly; other types become an
    object with the key "__towerpack__".

    Raises:
        TypeError: the state contains any other type, such as an array or an instance of a subclass; the
            message names the path and the value.
    """
    state = dict(state)
    try:
        return json.dumps(_tagged(state))
    except _REFUSED as error:
        raise TypeError(
            f"{_find_culprit(state)}, which JSON cannot express. Let state_dict() return numbers, strings, "
            "bytes, lists, tuples and dicts, not of subclasses: convert with list(x), dict(x) or "
            "x.tolist(). Write arrays to files, in save_files(directory)."
        ) from error


def state_from_json(text: str) -> Any:
    """Restores a state from the text of `state_to_json`; text without tags is read as plain JSON.

    Raises:
        ValueError: the text is not JSON, or contains an unknown tag of another release.
    """
    try:
        return json.loads(text, object_hook=_untagged)
    except (AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it is nested too deeply, or has a damaged value: {error}") from error


def shown_value(value: Any) -> str:
    """Formats a value of a state for display: as JSON, or as a Python literal if JSON lacks a type."""
    if _TAG in state_to_json({"value": value}):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _tagged(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is str:
        return (
            value if _is_plain_text(value) else _tag("str", _base64(value.encode("utf-8", "surrogatepass")))
        )
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if kind is list:
        # Most long lists contain only numbers.
        return value if _PLAIN.issuperset(map(type, value)) else [_tagged(part, depth + 1) for part in value]
    if kind is dict:
        return _tagged_dict(value, depth)
    if kind is tuple:
        return _tag("tuple", [_tagged(part, depth + 1) for part in value])
    if kind is bytes:
        return _tag("bytes", _base64(value))
    return _tagged_scalar(value)


def _tagged_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if _TAG not in value and all(type(key) is str and _is_plain_text(key) for key in value):
        return {key: _tagged(part, depth + 1) for key, part in value.items()}
    items = [[_tagged(key, depth + 1), _tagged(part, depth + 1)] for key, part in value.items()]
    return _tag("dict", items)


def _tagged_scalar(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is np.str_:
        return _tag("numpy.str_", _base64(str(value).encode("utf-8", "surrogatepass")))
    if kind is np.bytes_:
        return _tag("numpy.bytes_", _base64(bytes(value)))
    if isinstance(value, np.generic) and _NUMPY.fullmatch(value.dtype.str):
        tagged = _tag(value.dtype.str, _base64(value.tobytes()))
        if type(_untagged(tagged)) is kind:
            return tagged
    raise TypeError(f"{kind} cannot be written as JSON")


def _tag(name: str, content: Any) -> dict[str, Any]:
    return {_TAG: name, _OF: content}


def _untagged(found: dict[str, Any]) -> Any:
    """Returns the value of a tagged object; inner objects are already converted."""
    if _TAG not in found:
        return found
    name, content = found[_TAG], found[_OF]
    if name in _MAKERS:
        return _MAKERS[name](content)
    if isinstance(name, str) and _NUMPY.fullmatch(name):
        return np.frombuffer(_bytes(content), name)[0]
    raise ValueError(f"received an object with {_TAG!r}: {name!r:.60}, which this release does not support")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _text(text: str) -> str:
    return _bytes(text).decode("utf-8", "surrogatepass")


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "dict": dict,
    "numpy.bytes_": lambda text: np.bytes_(_bytes(text)),
    "numpy.str_": lambda text: np.str_(_text(text)),
    "str": _text,
    "tuple": tuple,
}


def _is_plain_text(text: str) -> bool:
    return text.isascii() or not _PAIR.search(text)


def _find_culprit(value: Any, where: str = "state", depth: int = 0) -> str:
    """Returns the path and value of the first part of a state that cannot be written as JSON."""
    if depth > _DEEPEST:
        return f"{where:.60}… is nested too deeply or contains itself"
    parts: Any = value.items() if type(value) is dict else ()
    if type(value) in (list, tuple):
        parts = enumerate(value)
    for key, part in parts:
        if _is_refused(key):
            return _find_culprit(key, f"the key {key!r:.60} of {where}", depth + 1)
        if _is_refused(part):
            return _find_culprit(part, f"{where}[{key!r}]", depth + 1)
    if type(value) is int:  # Python limits the number of digits
        return f"{where} is a whole number of {value.bit_length()} bits"
    return f"{where} is {value!r:.200} of type {type(value).__name__}"


def _is_refused(part: Any) -> bool:
    try:
        json.dumps(_tagged(part))
    except _REFUSED:
        return True
    return False


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
