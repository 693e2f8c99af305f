"""`CaffeLMDB`: the images and labels of a data set in Caffe's format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, final

import numpy as np

from ..._errors import FormatError
from .._record_flow import RecordFlow
from .._wire_format import WireError, fields
from ._lmdb_records import LMDBRecords

__all__ = ["CaffeLMDB"]

# The fields of a `Datum`, in caffe.proto.
_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)
_NUMBERS = (_CHANNELS, _HEIGHT, _WIDTH, _LABEL, _ENCODED)
_VARINT, _DELIMITED = 0, 2


@final
class CaffeLMDB(RecordFlow):
    """Yields `[image, label]` of an LMDB file with values of Caffe's `Datum`; addressable.

    The image is uint8 of shape (height, width, channels), with the channel order of the file (Caffe writes
    BGR), or float32 if the file holds floats; the label is an int. Neither Caffe nor protobuf is needed.
    Encoded images, such as JPEG, are rejected: decode them with `LMDBDataDecoder`.

    Source: Y. Jia et al., "Caffe: Convolutional Architecture for Fast Feature Embedding", 2014; `Datum` in
    its `caffe.proto`.

    Args:
        lmdb_path: a file, or a folder that contains `data.mdb`.
        shuffle: whether each epoch has a different order; otherwise records are in the order of the keys.
        keys: as in `LMDBData`.

    Raises:
        ArgumentError: `keys` is a string that does not format numbers.
        FormatError: the file cannot be read; or, while iterating, a record is not such a `Datum`.
        ImportError: the extra `[lmdb]` is missing.
        OSError: the file is missing or not readable.

    Example:
        ```python
        flow = BatchData(CaffeLMDB("mnist_train_lmdb"), 64)
        ```
    """

    def __init__(
        self,
        lmdb_path: str | os.PathLike[str],
        shuffle: bool = True,
        keys: Iterable[bytes | str] | str | None = None,
    ) -> None:
        """Reads the keys."""
        super().__init__(LMDBRecords(lmdb_path, keys, _image_and_label), shuffle)
        self._lmdb_path = self._lst


def _image_and_label(key: bytes, value: memoryview) -> list[Any]:
    numbers, data, floats = _datum(value)
    if numbers.get(_ENCODED):
        raise FormatError(
            "the Datum holds an encoded image; read it with LMDBDataDecoder(LMDBData(path), decoder) and a "
            "custom decoder"
        )
    shape = tuple(numbers.get(axis, 0) for axis in (_CHANNELS, _HEIGHT, _WIDTH))
    pixels = np.frombuffer(data, np.uint8) if data or not floats else np.frombuffer(floats, "<f4")
    if pixels.size != int(np.prod(shape, dtype=object)):
        raise FormatError(f"the Datum has channels, height and width {shape}, but {pixels.size} values")
    image = pixels.reshape(shape).transpose(1, 2, 0)
    label = numbers.get(_LABEL, 0)
    return [
        np.array(image, image.dtype.newbyteorder("="), order="C"),
        label - 2**64 if label >> 63 else label,
    ]


def _datum(value: memoryview) -> tuple[dict[int, int], memoryview, bytes]:
    """Returns the numbers of a `Datum`, its bytes and its floats."""
    numbers: dict[int, int] = {}
    data, floats = memoryview(b""), bytearray()
    try:
        for number, kind, content in fields(value):
            if number in _NUMBERS and kind == _VARINT:
                numbers[number] = content
            elif number == _DATA and kind == _DELIMITED:
                data = content
            elif number == _FLOATS and kind != _VARINT:  # packed or not
                floats += content
    except WireError as error:
        raise FormatError(f"the value is not a Datum: {error}") from error
    if len(floats) % 4:
        raise FormatError(f"the floats of the Datum have {len(floats)} bytes, not a multiple of 4")
    return numbers, data, bytes(floats)
