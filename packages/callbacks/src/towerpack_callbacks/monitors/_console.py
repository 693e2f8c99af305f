"""Prints statistics on the console."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import final

from tqdm import tqdm

from ._monitor import Monitor

__all__ = ["ScalarPrinter"]


@final
class ScalarPrinter(Monitor):
    """Prints the epoch's scalars, sorted by name, after each epoch.

    Args:
        whitelist: regular expressions; only names in which one is found are printed. None: all.
        blacklist: regular expressions; names in which one is found are not printed.
    """

    def __init__(self, whitelist: Sequence[str] | None = None, blacklist: Sequence[str] = ()) -> None:
        self._whitelist = None if whitelist is None else [re.compile(regex) for regex in whitelist]
        self._blacklist = [re.compile(regex) for regex in blacklist]
        self._latest: dict[str, float] = {}

    def _setup_graph(self) -> None:
        self._latest.clear()

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        if self._wanted(name):
            self._latest[name] = value

    def _wanted(self, name: str) -> bool:
        if any(regex.search(name) for regex in self._blacklist):
            return False
        return self._whitelist is None or any(regex.search(name) for regex in self._whitelist)

    def _trigger(self) -> None:
        if not self._latest:
            return
        scalars = "  ".join(f"{name} {value:.5g}" for name, value in sorted(self._latest.items()))
        # Through tqdm, so that a running progress bar is not torn.
        tqdm.write(f"epoch {self.epoch_num}, step {self.global_step}: {scalars}")
        self._latest.clear()
