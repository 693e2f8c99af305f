"""Writes statistics to a table, for spreadsheets and pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import final

from ...writing import LineFile, atomic_write, prepare_lines
from ._row_writer import RowFile, RowWriter
from ._step_row import COUNTERS, Row

__all__ = ["CSVWriter"]

# The others come where they are counted, as statistics do.
_FIRST_COLUMNS = list(COUNTERS[:2])


@final
class CSVWriter(RowWriter):
    """Appends one row per step that put statistics; a column for each name, in the order they first appear.

    A statistic that appears later adds a column on the right: the file is written anew with it, aside, and
    takes the old one's place in one step, so a reader sees the old table or the new one. Columns never move
    and never go away. What a step did not put is an empty cell; values that are not finite are `nan`, `inf`
    and `-inf`, as Python, NumPy and pandas read them. When a run resumes, rows of steps after its checkpoint
    are left out.

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str = "stats.csv") -> None:
        super().__init__(filename)

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        table = _Table(path)
        table.drop_after(last_step)
        return table


@final
class _Table:
    """A file of rows with a heading, which gets new columns on its right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LineFile(path, _line)
        self._columns: list[str] = []

    def append(self, rows: Sequence[Row]) -> None:
        new = dict.fromkeys(name for row in rows for name in row if name not in self._columns)
        if new:
            self._widen(list(new))
        self._file.append([_cell(row.get(name)) for name in self._columns] for row in rows)

    def close(self) -> None:
        self._file.close()

    def _widen(self, new: Sequence[str]) -> None:
        self._file.close()
        columns, rows = self._read()
        columns = [*columns, *new] if columns else [*_FIRST_COLUMNS, *new[len(_FIRST_COLUMNS) :]]
        self._replace(columns, rows)

    def drop_after(self, last_step: int) -> None:
        """Keeps rows up to a step; leaves out lines that are no rows, such as one cut short by a crash."""
        prepare_lines(self._path)
        if self._path.exists():
            columns, rows = self._read()
            self._replace(columns, [row for row in rows if int(row[1]) <= last_step])

    def _read(self) -> tuple[list[str], list[list[str]]]:
        if not self._path.exists():
            return [], []
        with self._path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            # Only a line that has its end is whole. Python 3.10 refuses NUL, which a crash leaves.
            lines = csv.reader(line for line in file if line.endswith("\n") and "\0" not in line)
            columns = next(lines, [])
            if columns and columns[:2] != _FIRST_COLUMNS:
                raise ValueError(
                    f"{self._path} is no table of statistics: its first columns are {columns[:2]}, expected "
                    f"{_FIRST_COLUMNS}. Move it away, or give CSVWriter(filename=...) another name."
                )
            return columns, [row for row in lines if len(row) == len(columns) and _is_row(row)]

    def _replace(self, columns: list[str], rows: Iterable[list[str]]) -> None:
        with (
            atomic_write(self._path, durable=True) as aside,
            aside.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
        ):
            if columns:
                file.write(_line(columns) + "\n")
            file.writelines(_line(row + [""] * (len(columns) - len(row))) + "\n" for row in rows)
        self._columns = columns


def _is_row(cells: Sequence[str]) -> bool:
    return cells[1].isdecimal() and all(map(str.isascii, cells))


def _cell(value: float | int | None) -> str:
    return "" if value is None else repr(value)


def _line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
