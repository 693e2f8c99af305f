"""Writes statistics as JSON lines: append-only, so a crash loses nothing and `tail -f` works."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import final

from ...writing import LineFile, cut_lines_after, prepare_lines
from ._row_writer import RowFile, RowWriter
from ._step_row import Row

__all__ = ["JSONWriter"]


@final
class JSONWriter(RowWriter):
    """Appends one line `{"epoch_num": …, "global_step": …, name: value, …}` per step that put statistics.

    Where an agent acts in environments, the line has `"env_steps"` behind `"global_step"`.
    Lines are written by a thread, as soon as their step is over. When a run resumes, lines of steps after its
    checkpoint are cut off first, as those steps will run again; so the file has each step once, however
    often and wherever the run was killed. Values that JSON cannot express are written as the strings
    "NaN", "Infinity", "-Infinity".

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
        return False  # cut short by a crash; its step runs again
