"""`TarData`: the samples of a tar file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, final

from ..._errors import ArgumentTypeError, FormatError
from ...storage import URL, StoredFile, UrlCache, open_url
from .._opened_records import OpenedRecords, open_same
from .._record_flow import RecordFlow
from ._tar_index import key_of, load_index

__all__ = ["TarData"]


@final
class TarData(RecordFlow):
    """Yields the samples of a tar file as WebDataset has them; addressable.

    A sample is the members that follow each other with one key: the name up to the first dot of its last
    part. Where they lie is read from the index beside the file, `<path>.index` (`write_tar` and `index_tar`
    make it), or else from the file itself, once, when the flow is made. Several files are a `ConcatData`.

    Args:
        path: of the file, which is not compressed; also one in an object store, which is read by ranges.
        decoder: makes the datapoint of a sample: a dict of bytes by what follows the key in each name, as
            `{"__key__": "train/0001", "jpg": b"…", "cls": b"7"}`. Without one, a datapoint is this dict.
        shuffle: whether each epoch has an order of its own.
        cache: a `UrlCache` for a file elsewhere.

    Raises:
        ArgumentTypeError: `decoder` cannot be called.
        FormatError: the file is no tar file, is cut off or compressed, or the index is damaged.
        OSError: the file is missing, or may not be read.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import write_tar
        >>> path = tempfile.mkdtemp() + "/words.tar"
        >>> samples = [("0", b"one", b"1"), ("1", b"two", b"2")]
        >>> write_tar([dict(zip(("__key__", "txt", "cls"), sample)) for sample in samples], path)
        >>> TarData(path, lambda sample: [sample["txt"].decode(), int(sample["cls"])]).datapoint(0, 1)
        ['two', 2]
    """

    _holds = ()
    _steady = True
    _argument_names: Mapping[str, str] = {"path": "_lst"}

    def __init__(
        self,
        path: URL,
        decoder: Callable[[dict[str, Any]], Any] | None = None,
        shuffle: bool = False,
        cache: UrlCache | None = None,
    ) -> None:
        """Reads the index."""
        if decoder is not None and not callable(decoder):
            raise ArgumentTypeError(
                f"decoder is a function of a sample's dict; received {type(decoder).__name__}"
            )
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
        names, places = self._index.names[first:last], self._places[first:last].tolist()
        low, high = places[0][0], places[-1][1] + places[-1][2]
        content = self._file().read(low, high - low)  # in one request, if the file lies elsewhere
        sample: dict[str, Any] = {"__key__": key_of(names[0])[0]}
        for name, (head, begin, size, check) in zip(names, places):
            extension = key_of(name)[1]
            if extension in sample:
                raise FormatError(f"{self._name}, sample {index}: it has {name!r} twice")
            if zlib.crc32(content[head - low : begin - low]) != check:
                raise FormatError(
                    f"{self._name}, sample {index}: {name!r} is not where the index says: the file is "
                    f"damaged, or the index beside it is of another one; write the index again"
                )
            sample[extension] = bytes(content[begin - low : begin - low + size])
        return sample if self._decoder is None else self._decoder(sample)

    def _open(self) -> StoredFile:
        return open_same(self._path, self._version, self._cache)
