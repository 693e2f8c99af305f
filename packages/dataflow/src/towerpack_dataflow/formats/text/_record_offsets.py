"""Start offsets of the records of a text file: lines, or rows in which quotes join lines."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from ..._errors import FormatError
from ...storage import StoredFile
from .._offset_index import IndexKind

__all__ = ["LINES", "MARK", "ROWS", "TextKind", "record_offsets"]

MARK: Final = codecs.BOM_UTF8

_BLOCK: Final = 2**24
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_SPACES: Final = np.frombuffer(b" \t\r\n\v\f", np.uint8)


@final
@dataclass(frozen=True)
class TextKind:
    """The kind of the records of a text file.

    Attributes:
        index: kind of the index of such a file. Its name changes with the definition of a record.
        ends: bytes that end a record.
        quoted: whether quotes join lines.
    """

    index: IndexKind
    ends: bytes
    quoted: bool


LINES = TextKind(IndexKind(b"lines 2", 1, "index_jsonl(path)"), b"\n", quoted=False)
ROWS = TextKind(IndexKind(b"rows 2", 1, "index_csv(path)"), b"\r\n", quoted=True)


def record_offsets(file: StoredFile, kind: TextKind, name: str) -> npt.NDArray[np.int64]:
    """Returns the start of each record and the size of the file. A record includes the blank lines after it.

    Args:
        file: the text, in an encoding with line ends and quotes as ASCII bytes.
        kind: kind of its records.
        name: name of the file, for messages.

    Raises:
        FormatError: the last record ends inside quotes.
    """
    found: list[npt.NDArray[np.int64]] = []
    blank = [np.array([True])]  # unknown
    within = 0
    for begin in range(0, file.size, _BLOCK):
        # One byte more shows whether a newline follows a return, and the first byte of the next record.
        values = np.frombuffer(file.read(begin, min(_BLOCK + 1, file.size - begin)), np.uint8)
        ends, within = _ends(values[:_BLOCK], values, within, kind)
        found.append(ends + begin)
        blank.append(np.isin(values[ends[ends < len(values)]], _SPACES))
    ends = np.concatenate([np.zeros(1, np.int64), *found])
    if within:
        raise FormatError(f"{name}: its last record, {len(ends) - 1}, ends inside quotes: it is truncated")
    if ends[-1] != file.size:
        ends = np.append(ends, np.int64(file.size))
    return _without_blank(file, ends, np.concatenate(blank), kind)


def _ends(
    block: np.ndarray, values: np.ndarray, within: int, kind: TextKind
) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the ends of records in a block, and whether the block ends inside quotes."""
    is_end = block == _NEWLINE
    if kind.quoted:
        returns = np.flatnonzero(block == _RETURN)
        followed = returns[returns + 1 < len(values)]
        is_end[returns] = True
        is_end[followed[values[followed + 1] == _NEWLINE]] = False
    ends = np.flatnonzero(is_end)
    if kind.quoted:
        quotes = np.flatnonzero(block == _QUOTE)
        # A line end also ends a record if an even number of quotes precedes it in the file.
        ends = ends[(np.searchsorted(quotes, ends) + within) % 2 == 0]
        within = (within + len(quotes)) % 2
    return ends + 1, within


def _without_blank(
    file: StoredFile, offsets: npt.NDArray[np.int64], begins_blank: np.ndarray, kind: TextKind
) -> npt.NDArray[np.int64]:
    """Removes the offsets of blank lines, which become a part of the previous record."""
    count = len(offsets) - 1
    candidates = np.flatnonzero(begins_blank[:count]).tolist()
    blank = np.zeros(count, bool)
    for number in candidates:
        blank[number] = _is_blank(file, int(offsets[number]), int(offsets[number + 1]), kind)
    if not blank.any():
        return offsets
    kept = np.append(True, np.append(~blank[1:], True))
    first = int(np.argmin(blank)) if not blank.all() else count
    kept[1 : first + 1] = False
    remaining: npt.NDArray[np.int64] = offsets[kept]
    return remaining


def _is_blank(file: StoredFile, begin: int, end: int, kind: TextKind) -> bool:
    content = bytes(file.read(begin, end - begin))
    if not begin:
        content = content.removeprefix(MARK)
    return not content.strip(kind.ends if kind.quoted else None)
