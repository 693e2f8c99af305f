"""Statistics as JSON lines: append-only, so a crash loses nothing and `tail -f` works."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, final

from ._background import BackgroundWriter, Batches
from ._line_file import LineFile, cut_lines_after
from ._monitor import Monitor
from ._step_row import Row, StepRow

__all__ = ["JSONWriter"]


@final
class JSONWriter(Monitor):
    """Appends one line `{"epoch_num": …, "global_step": …, name: value, …}` per step that put statistics.

    Lines are written by a thread, as soon as their step is over. When a run resumes, lines of steps after its
    checkpoint are cut off first, as those steps will run again; so the file has each step once, however
    often and wherever the run was killed. Values that JSON cannot express are written as the strings
    "NaN", "Infinity", "-Infinity".

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str = "stats.jsonl") -> None:
        self._filename = filename
        self._row = StepRow()
        self._writer = BackgroundWriter(f"JSONWriter({filename})")
        self._rows: Batches[Row] = Batches(self._writer, self._append)
        self._file: LineFile | None = None

    def _setup_graph(self) -> None:
        self._file, self._row = None, StepRow()

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> LineFile:
        # On first use: a callback may put statistics in its _before_train, ahead of ours.
        if self._file is None:
            path = self._directory() / self._filename
            if path.exists():
                last = self._row.last_recorded_step(self.global_step)
                cut_lines_after(path, partial(_is_up_to, last))
            self._file = LineFile(path)
        return self._file

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        self._write(self._row.add(name, value, self.epoch_num, global_step))

    def _write(self, row: Row | None) -> None:
        if row is not None:
            self._open()
            self._rows.put(row)

    def _append(self, rows: list[Row]) -> None:
        self._open().append(map(_encode, rows))

    def flush(self) -> None:
        """Waits until the lines of finished steps are in the file."""
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


def _encode(row: Row) -> str:
    return json.dumps({name: value if math.isfinite(value) else _spell(value) for name, value in row.items()})


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_up_to(last_step: int, line: bytes) -> bool:
    try:
        return int(json.loads(line)["global_step"]) <= last_step
    except (ValueError, TypeError, KeyError):
        return False  # cut short by a crash; what it said is computed again
