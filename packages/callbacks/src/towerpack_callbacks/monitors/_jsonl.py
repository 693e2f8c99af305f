"""Statistics as JSON lines: append-only, so a crash loses nothing and `tail -f` works."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import final

from ._monitor import Monitor

__all__ = ["JSONWriter"]


@final
class JSONWriter(Monitor):
    """Appends one line `{"epoch_num": …, "global_step": …, name: value, …}` per step that put statistics.

    When a run resumes, lines of steps after its checkpoint are cut off first: those steps will run again.
    Values that JSON cannot express are written as the strings "NaN", "Infinity", "-Infinity".

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str = "stats.jsonl") -> None:
        self._filename = filename
        self._line: dict[str, float | int | str] = {}
        self._path: Path | None = None

    def _setup_graph(self) -> None:
        self._path, self._line = None, {}

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> Path:
        # On first use: a callback may put statistics in its _before_train, ahead of ours.
        if self._path is None:
            self._path = self._directory() / self._filename
            if self._path.exists():
                _truncate(self._path, self.global_step)
        return self._path

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        if self._line and self._line["global_step"] != global_step:
            self._flush()
        if not self._line:
            self._line = {"epoch_num": self.epoch_num, "global_step": global_step}
        self._line[name] = value if math.isfinite(value) else _spell(value)

    def _trigger(self) -> None:
        self._flush()

    def _after_train(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._line:
            line, self._line = self._line, {}
            with self._open().open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _truncate(path: Path, global_step: int) -> None:
    """Keeps the complete lines up to `global_step`."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["global_step"] > global_step:
                break
        except ValueError:
            break  # a line cut short by a crash; what it said is computed again
        kept.append(line + "\n")
    aside = path.with_name(path.name + ".tmp")
    aside.write_text("".join(kept), encoding="utf-8")
    os.replace(aside, path)
