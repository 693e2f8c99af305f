"""Writes statistics as JSON lines: append-only, safe against crashes, and usable with `tail -f`."""

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
