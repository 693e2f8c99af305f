"""Prints statistics on the console."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import final

from tqdm import tqdm

from ._monitor import Monitor

__all__ = ["ScalarPrinter"]


@final
class ScalarPrinter(Monitor):
    """Prints one line after each epoch, and messages as they come, on standard error.

    The line has the statistics that callbacks declare (`Callback.headlines`: moving averages, evaluations),
    in the order of the callbacks. Those of the weights and of the input's queue are in the files alone.

    Args:
        whitelist: regular expressions; only names in which one is found are printed, declared or not.
            None: those that are declared.
        blacklist: regular expressions; names in which one is found are not printed.
        verbose: print all that are not in the blacklist, declared or not.
    """

    def __init__(
        self,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] = ("/queue_size$",),
        *,
        verbose: bool = False,
    ) -> None:
        if verbose:
            whitelist = [""] if whitelist is None else whitelist
            blacklist = () if blacklist == ("/queue_size$",) else blacklist
        self._whitelist = None if whitelist is None else [re.compile(regex) for regex in whitelist]
        self._blacklist = [re.compile(regex) for regex in blacklist]
        self._headlines: list[str] = []
        self._latest: dict[str, float] = {}

    def _setup_graph(self) -> None:
        self._latest.clear()

    def expect(self, headlines: Sequence[str]) -> None:
        self._headlines = list(headlines)

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        if self._is_shown(name):
            self._latest[name] = value

    def process_message(self, text: str) -> None:
        _print(text)

    def _is_shown(self, name: str) -> bool:
        if any(regex.search(name) for regex in self._blacklist):
            return False
        if self._whitelist is None:
            return name in self._headlines
        return any(regex.search(name) for regex in self._whitelist)

    def _trigger(self) -> None:
        loop = self.trainer.loop
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        shown = sorted(self._latest.items(), key=self._place)
        scalars = "  ".join(f"{name} {value:.5g}" for name, value in shown)
        _print(f"epoch {loop.epoch_num}{end}, step {loop.global_step}{': ' if shown else ''}{scalars}")
        self._latest.clear()

    def _place(self, statistic: tuple[str, float]) -> tuple[int, str]:
        name = statistic[0]
        return (self._headlines.index(name) if name in self._headlines else len(self._headlines), name)


def _print(line: str) -> None:
    # Through tqdm, so that a progress bar is redrawn below the line.
    tqdm.write(line, file=sys.stderr)
