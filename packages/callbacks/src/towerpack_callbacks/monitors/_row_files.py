"""Files with a row of statistics for each step: JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, final

from ..writing import BackgroundWriter, Batches, LineFile, atomic_write, cut_lines_after, prepare_lines
from ._monitor import COUNTERS, Monitor, Row, StepRow

__all__ = ["CSVWriter", "JSONWriter", "RowFile", "RowWriter"]


class RowFile(Protocol):
    """A file of rows."""

    def append(self, rows: list[Row]) -> None:
        """Appends rows."""

    def close(self) -> None:
        """Closes the descriptor; the next `append` reopens the file."""


class RowWriter(Monitor):
    """Collects statistics in rows, and writes the rows of finished steps in a thread.

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._row = StepRow()
        self._writer = BackgroundWriter(f"{type(self).__name__}({filename})")
        self._rows: Batches[Row] = Batches(self._writer, self._append)
        self._file: RowFile | None = None

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        """Opens the file and removes rows after `last_step` and a row truncated by a crash."""
        raise NotImplementedError

    def _setup_graph(self) -> None:
        self._file, self._row = None, StepRow()

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> RowFile:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if self._file is None:
            last = self._row.last_recorded_step(self.global_step)
            self._file = self._file_up_to(self._directory() / self._filename, last)
        return self._file

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        self._write(self._row.add(name, value, self.epoch_num, global_step, self.env_steps))

    def _write(self, row: Row | None) -> None:
        if row is not None:
            self._open()
            self._rows.put(row)

    def _append(self, rows: list[Row]) -> None:
        self._open().append(rows)

    def flush(self) -> None:
        """Waits until the rows of finished steps are in the file."""
        if self._file is not None:
            self._writer.submit(self._file.close)
        self._writer.flush()

    def _trigger(self) -> None:
        self._write(self._row.take())
        self.flush()

    def _after_train(self) -> None:
        try:
            self._trigger()
        finally:
            self._writer.close()

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return self._row.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._row.load_state_dict(state)


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


@final
class JSONWriter(RowWriter):
    """Appends one line `{"epoch_num": …, "global_step": …, name: value, …}` per step with statistics.

    In the training of an agent, the line has `"env_steps"` behind `"global_step"`. A thread writes each line
    as soon as its step is over. When a run resumes, it first removes the lines of steps after its checkpoint,
    since those steps will run again. So the file contains each step once, even if the run was killed several
    times. Values that JSON cannot express are written as the strings "NaN", "Infinity", "-Infinity".

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str = "stats.jsonl") -> None:
        super().__init__(filename)

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        prepare_lines(path)
        if path.exists():
            cut_lines_after(path, partial(_is_up_to, last_step))
        return LineFile(path, _encode)


def _encode(row: Row) -> str:
    return json.dumps({name: value if math.isfinite(value) else _spell(value) for name, value in row.items()})


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_up_to(last_step: int, line: bytes) -> bool:
    try:
        return int(json.loads(line)["global_step"]) <= last_step
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return False  # truncated by a crash; its step runs again
