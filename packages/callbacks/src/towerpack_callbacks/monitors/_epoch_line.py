"""The summary line of an epoch, on the console and in the log file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import final

from ..callback import LoopState

__all__ = ["EpochLine"]

# An average added by an input, not by a callback or the user's model.
_OF_INPUT = "/queue_size"


@final
class EpochLine:
    """Collects the statistics of an epoch and formats them as one line.

    Args:
        whitelist: regular expressions; only matching names are shown. None: those that callbacks declare.
        blacklist: regular expressions; matching names are not shown.
    """

    def __init__(self, whitelist: Sequence[str] | None = None, blacklist: Sequence[str] = ()) -> None:
        self._whitelist = None if whitelist is None else [re.compile(regex) for regex in whitelist]
        self._blacklist = [re.compile(regex) for regex in blacklist]
        self._places: dict[str, int] = {}
        self._latest: dict[str, float] = {}

    def expect(self, headlines: Sequence[str]) -> None:
        """Sets the statistics that the callbacks of the run declare, in their order."""
        names = [name for name in headlines if not name.endswith(_OF_INPUT)]
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}

    def put(self, name: str, value: float) -> None:
        """Stores the latest value of a statistic."""
        if self._is_shown(name):
            self._latest[name] = value

    def take(self, loop: LoopState) -> str:
        """Returns the line of the finished epoch and starts the next one."""
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        shown = sorted(self._latest.items(), key=self._place)
        scalars = "  ".join(f"{name} {value:.5g}" for name, value in shown)
        acted = f", env_steps {loop.env_steps}" if loop.env_steps else ""
        self.clear()
        return f"epoch {loop.epoch_num}{end}, step {loop.global_step}{acted}{': ' if shown else ''}{scalars}"

    def clear(self) -> None:
        """Deletes the values."""
        self._latest.clear()

    def _is_shown(self, name: str) -> bool:
        if any(regex.search(name) for regex in self._blacklist):
            return False
        if self._whitelist is None:
            return name in self._places
        return any(regex.search(name) for regex in self._whitelist)

    def _place(self, statistic: tuple[str, float]) -> tuple[int, str]:
        name = statistic[0]
        return self._places.get(name, len(self._places)), name
