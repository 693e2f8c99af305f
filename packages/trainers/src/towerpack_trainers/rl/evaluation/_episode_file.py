"""A table of episodes, with the columns of Stable-Baselines3's monitors."""

from __future__ import annotations

import contextlib
import csv
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

from towerpack_callbacks.writing import prepare_lines

from ..environments import Episode

__all__ = ["EpisodeFile"]

_COLUMNS = ["r", "l", "t", "seed", "global_step"]


@final
class EpisodeFile:
    """Appends episodes to a file that Stable-Baselines3's `load_results` can also read.

    The first line contains the start time of the file, as JSON after "#". Then come the columns: `r`,
    the return of an episode; `l`, its length; `t`, the seconds since the start time; its seed; and
    `global_step`.

    Args:
        path: the file.
        last_step: the step from which the run continues; later rows of an existing file are dropped.
    """

    def __init__(self, path: Path, last_step: int) -> None:
        self._path, self._begun = path, time.time()
        prepare_lines(path)
        rows = self._rows_up_to(last_step) if path.exists() else []
        aside = path.with_name(f"{path.name}.new")
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.write(f"#{json.dumps({'t_start': self._begun, 'env_id': None})}\n")
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *rows])
        aside.replace(path)

    def append(self, episodes: Sequence[Episode], seed: int, step: int) -> None:
        """Adds episodes.

        Args:
            episodes: the episodes, in the order of their seeds.
            seed: the seed of the first one.
            step: the number of updates.
        """
        seconds = round(time.time() - self._begun, 6)
        with self._path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [each.total, each.length, seconds, seed + number, step]
                for number, each in enumerate(episodes)
            )

    def _rows_up_to(self, last_step: int) -> list[list[str]]:
        # A killed run may have left an incomplete line at the end.
        whole, _, _ = self._path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
        first, _, others = whole.partition("\n")
        begun = first.removeprefix("#")
        table = csv.reader(line for line in others.split("\n") if "\0" not in line)
        rows = [row for row in table if len(row) == len(_COLUMNS) and row[-1].isdecimal()]
        kept = [row for row in rows if int(row[-1]) <= last_step]
        if kept:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # now, if the first line is damaged
                self._begun = float(json.loads(begun)["t_start"])
        return kept
