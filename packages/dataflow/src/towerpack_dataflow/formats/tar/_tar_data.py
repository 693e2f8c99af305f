"""`TarData`: the samples of a tar file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import FormatError
from ...storage import URL, StoredFile, UrlCache, open_url
from .._record_flow import OpenedRecords, RecordFlow, open_same
from ._tar_members import Place, key_of, load_index

__all__ = ["TarData"]

_GAP = 2**16  # largest gap between two members to read through


@final
class TarData(RecordFlow):
    """Yields the samples of a tar file in the format of WebDataset; addressable.

    A sample is the consecutive members with the same key: the name up to the first dot of its last part. The
    positions of members are read from the index of the file, `<path>.index` (written by `write_tar` and
    `index_tar`), or from the file itself, once, when the flow is created. For several files use a
    `ConcatData`; several archives in one file (`cat a.tar b.tar`) are read in order.

    Hard and symbolic links yield the members they refer to. Members without a sample are left out: files
    without a dot in the last part of their names, those below a folder such as `__index__`, folders, links to
    folders, devices and pipes. WebDataset does so, too; it also leaves out links, and converts extensions to
    lower case, unlike this class.

    Args:
        path: path of the file, which must not be compressed; also in an object store, where ranges are read.
        decoder: creates the datapoint from a sample: a dict of bytes keyed by the rest of each name after the
            key, such as `{"__key__": "train/0001", "jpg": b"…", "cls": b"7"}`. By default, a datapoint is
            this dict.
        shuffle: whether each epoch has a different order.
        cache: a `UrlCache` for a remote file.

    Raises:
        ArgumentTypeError: `decoder` cannot be called.
        FormatError: the file is not a tar file, is truncated or compressed, or the index is damaged; a part
            of a sample is a sparse file, or a link to a file outside the archive.
        OSError: the file is missing or not readable.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import write_tar
        >>> path = tempfile.mkdtemp() + "/words.tar"
        >>> samples = [("0", b"one", b"1"), ("1", b"two", b"2")]
        >>> write_tar([dict(zip(("__key__", "txt", "cls"), sample)) for sample in samples], path)
        >>> TarData(path, lambda sample: [sample["txt"].decode(), int(sample["cls"])]).datapoint(0, 1)
        ['two', 2]
    """

    def __init__(
        self,
        path: URL,
        decoder: Callable[[dict[str, Any]], Any] | None = None,
        shuffle: bool = False,
        cache: UrlCache | None = None,
    ) -> None:
        """Reads the index."""
        arguments.function("decoder is a function of a sample's dict", decoder, optional=True)
        super().__init__(_TarSamples(path, decoder, cache), shuffle)


@final
class _TarSamples(OpenedRecords):
    def __init__(
        self, path: URL, decoder: Callable[[dict[str, Any]], Any] | None, cache: UrlCache | None
    ) -> None:
        super().__init__(path)
        self._decoder, self._cache = decoder, cache
        with open_url(path, cache) as file:
            self._version = file.version
            self._index = load_index(file, self._path, cache)
        self._samples, self._places = self._index.samples, self._index.places
        self.__qualname__ = f"{file.name} of {len(self)} samples"

    def __len__(self) -> int:
        return len(self._samples) - 1

    def _record(self, index: int) -> Any:
        first, last = self._samples[index : index + 2].tolist()
        names = self._index.names[first:last]
        places = [Place(*row) for row in self._places[first:last].tolist()]
        file = self._file()
        sample: dict[str, Any] = {}
        for name, place, content in zip(names, places, _contents(file, places)):
            key, extension = _split(name)
            sample.setdefault("__key__", key)
            if extension in sample:
                raise FormatError(f"{self._name}, sample {index}: it has {name!r} twice")
            header = place.begin - place.head
            if zlib.crc32(content[:header]) != place.check:
                raise FormatError(
                    f"{self._name}, sample {index}: {name!r} is not at its position in the index: the file "
                    f"is damaged, or its index belongs to another file; write the index again"
                )
            sample[extension] = bytes(content[header:])
        file.check()
        return sample if self._decoder is None else self._decoder(sample)

    def _open(self) -> StoredFile:
        return open_same(self._path, self._version, self._cache)


def _contents(file: StoredFile, places: list[Place]) -> Iterator[memoryview]:
    """Yields header and bytes of members; reads consecutive ones at once."""
    for low, high in _ranges(places):
        begin = places[low].head
        block = file.read(begin, _end(places[high - 1]) - begin)
        for place in places[low:high]:
            yield block[place.head - begin : _end(place) - begin]


def _ranges(places: list[Place]) -> Iterator[tuple[int, int]]:
    low = 0
    for number in range(1, len(places)):
        # The target of a link may be anywhere.
        if not 0 <= places[number].head - _end(places[number - 1]) <= _GAP:
            yield low, number
            low = number
    yield low, len(places)


def _end(place: Place) -> int:
    return place.begin + place.size


def _split(name: str) -> tuple[str, str]:
    found = key_of(name)
    if found is None:
        raise FormatError(f"the index has {name!r}, which is not part of a sample; write the index again")
    return found
