"""Positions of the members of a tar file, found once and stored in a file in the same folder."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from ..._errors import FormatError
from ...storage import StoredFile, UrlCache, create_file, is_local
from .._offset_index import read_index_beside
from ..arrays import array_of, members_of, write_npz
from ._tar_members import key_of, sample_members

__all__ = ["TarIndex", "load_index", "scan", "store_index"]

INDEX_VERSION: Final = 3
_FORMAT: Final = "towerpack-tar-index"
_COLUMNS = 4


@final
@dataclass(frozen=True)
class TarIndex:
    """The parts of samples in a tar file, in order.

    Args:
        names: names of the members.
        places: one row per member, with the fields of `Place`.
        samples: the first member of each sample, and the number of members.
    """

    names: list[str]
    places: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]

    def fits(self, file: StoredFile) -> bool:
        """Returns whether the last member's header is at its expected position.

        A tar file is padded to a multiple of 10 KiB, so different files often have the same size.
        """
        if not self.names:
            return True
        head, begin, _, check = self.places[-1].tolist()
        return bool(zlib.crc32(file.read(head, begin - head)) == check)


def scan(file: StoredFile) -> TarIndex:
    """Finds the members of a tar file that are parts of samples, and groups them.

    Raises:
        FormatError: the file is not a tar file, is truncated or compressed, or has an unreadable member.
    """
    members = sample_members(file)
    groups = [(member.archive, (key_of(member.name) or ("",))[0]) for member in members]
    first = [number for number, group in enumerate(groups) if not number or groups[number - 1] != group]
    places = np.array([member.place for member in members], np.int64).reshape(-1, _COLUMNS)
    return TarIndex([member.name for member in members], places, np.array([*first, len(members)], np.int64))


def store_index(file: StoredFile, index: TarIndex) -> None:
    """Writes `<file>.index` atomically.

    Raises:
        OSError: the index cannot be written.
    """
    head = {"format": _FORMAT, "version": INDEX_VERSION, "size": file.size, "of": file.version}
    names = "\0".join(index.names).encode("utf-8", "surrogateescape")
    with create_file(f"{file.name}.index") as out:
        arrays: dict[str, Any] = {
            "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
            "names": np.frombuffer(names, np.uint8),
            "places": index.places,
            "samples": index.samples,
        }
        write_npz(out, arrays)


def load_index(file: StoredFile, url: str, cache: UrlCache | None) -> TarIndex:
    """Returns the members of a file: from its index, or else from the file itself.

    Args:
        file: the tar file.
        url: URL of the file, with credentials.
        cache: cache for a remote index.

    Raises:
        FormatError: the index is damaged; or the file is damaged and has no index.
        StorageError: the index cannot be reached.
    """
    found = read_index_beside(file, url, lambda stored: _parsed(stored, file), "index_tar(path)", cache)
    return scan(file) if found is None else found


def _parsed(stored: StoredFile, file: StoredFile) -> TarIndex | None:
    members = members_of(stored)
    try:
        head = json.loads(bytes(array_of(stored.name, members["head"])))
        if head["format"] != _FORMAT:
            raise FormatError(f"{stored.name} is not an index of a tar file; remove it")
        # A remote copy has another version; in that case size and headers are compared.
        same = head["size"] == file.size and (head["of"] == file.version or not is_local(file.name))
        if head["version"] != INDEX_VERSION or not same:
            return None
        text = bytes(array_of(stored.name, members["names"])).decode("utf-8", "surrogateescape")
        names = text.split("\0") if text else []
        places, samples = (array_of(stored.name, members[name]) for name in ("places", "samples"))
        _check_places(stored.name, names, places, file.size)
        _check_samples(stored.name, samples, len(names))
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"{stored.name} is damaged ({error!r}); remove it, and call index_tar(path)"
        ) from error
    index = TarIndex(names, places, samples)
    return index if index.fits(file) else None


def _check_places(name: str, names: list[str], places: Any, size: int) -> None:
    if places.dtype != np.int64 or places.shape != (len(names), _COLUMNS):
        raise FormatError(f"{name} is damaged: it has {len(names)} names, but places of shape {places.shape}")
    heads, begins, sizes, _ = places.T
    # Check each number against the file size before adding numbers, so that no sum overflows.
    if ((places[:, :3] < 0) | (places[:, :3] > size)).any() or (begins + sizes > size).any():
        raise FormatError(f"{name} is damaged: it has members outside the {size} bytes of the file")
    if (heads >= begins).any():
        raise FormatError(f"{name} is damaged: it has members without headers")


def _check_samples(name: str, samples: Any, members: int) -> None:
    right = samples.dtype == np.int64 and samples.ndim == 1 and len(samples) and samples[-1] == members
    if not right or (members and samples[0] != 0) or (np.diff(samples) <= 0).any():
        raise FormatError(f"{name} is damaged: its samples do not have all of its {members} members")
