"""The base class of monitors that keep a file with a row of statistics for each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from ...writing import BackgroundWriter, Batches
from .._monitor import Monitor
from ._step_row import Row, StepRow

__all__ = ["RowFile", "RowWriter"]


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
