"""Writes statistics to a CSV table, for spreadsheets and pandas."""

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

# Other counters become columns at their first value, like statistics.
_FIRST_COLUMNS = list(COUNTERS[:2])


@final
class CSVWriter(RowWriter):
    """Appends one row per step with statistics; a column for each name, in order of first appearance.

    A statistic that appears later adds a column on the right: the file is rewritten to a temporary name and
    replaced atomically, so a reader sees either the old or the new table. Columns are never moved or removed.
    A cell is empty if the step did not put the statistic; non-finite values are `nan`, `inf` and `-inf`, the
    spelling of Python, NumPy and pandas. When a run resumes, rows of steps after its checkpoint are removed.

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
    """A file of rows with a heading, which can add columns on the right."""

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
        """Keeps rows up to a step; removes invalid lines, such as one truncated by a crash."""
        prepare_lines(self._path)
        if self._path.exists():
            columns, rows = self._read()
            self._replace(columns, [row for row in rows if int(row[1]) <= last_step])

    def _read(self) -> tuple[list[str], list[list[str]]]:
        if not self._path.exists():
            return [], []
        with self._path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            # Only a line with a line end is complete. Python 3.10 refuses NUL, which a crash may leave.
            lines = csv.reader(line for line in file if line.endswith("\n") and "\0" not in line)
            columns = next(lines, [])
            if columns and columns[:2] != _FIRST_COLUMNS:
                raise ValueError(
                    f"{self._path} is not a table of statistics: its first columns are {columns[:2]}, "
                    f"expected {_FIRST_COLUMNS}. Move it, or give CSVWriter(filename=...) another name."
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
