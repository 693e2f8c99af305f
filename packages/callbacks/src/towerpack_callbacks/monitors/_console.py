"""Prints statistics on the console."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import final

from tqdm import tqdm

from ._monitor import Monitor

__all__ = ["ScalarPrinter"]

# An average that an input adds, and no callback or model of the user's.
_OF_INPUT = "/queue_size"


@final
class ScalarPrinter(Monitor):
    """Prints one line after each epoch, and messages as they come, on standard error.

    The line has the statistics that callbacks declare (`Callback.headlines`: moving averages, evaluations),
    in the order of the callbacks. Those of the weights and of the input's queue are in the files alone.

    Args:
        whitelist: regular expressions; only names in which one is found are printed, declared or not.
            None: those that are declared.
        blacklist: regular expressions; names in which one is found are not printed.
        verbose: without a whitelist, print all that are not in the blacklist, declared or not.
    """

    def __init__(
        self,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] = (),
        *,
        verbose: bool = False,
    ) -> None:
        if verbose and whitelist is None:
            whitelist = [""]  # is found in all
        self._whitelist = None if whitelist is None else [re.compile(regex) for regex in whitelist]
        self._blacklist = [re.compile(regex) for regex in blacklist]
        self._places: dict[str, int] = {}
        self._latest: dict[str, float] = {}

    def _setup_graph(self) -> None:
        self._latest.clear()

    def expect(self, headlines: Sequence[str]) -> None:
        names = [name for name in headlines if not name.endswith(_OF_INPUT)]
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        if self._is_shown(name):
            self._latest[name] = value

    def process_message(self, text: str) -> None:
        _print(text)

    def _is_shown(self, name: str) -> bool:
        if any(regex.search(name) for regex in self._blacklist):
            return False
        if self._whitelist is None:
            return name in self._places
        return any(regex.search(name) for regex in self._whitelist)

    def _trigger(self) -> None:
        loop = self.trainer.loop
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        shown = sorted(self._latest.items(), key=self._place)
        scalars = "  ".join(f"{name} {value:.5g}" for name, value in shown)
        acted = f", env_steps {loop.env_steps}" if loop.env_steps else ""
        _print(f"epoch {loop.epoch_num}{end}, step {loop.global_step}{acted}{': ' if shown else ''}{scalars}")
        self._latest.clear()

    def _place(self, statistic: tuple[str, float]) -> tuple[int, str]:
        name = statistic[0]
        return self._places.get(name, len(self._places)), name


def _print(line: str) -> None:
    # Through tqdm, so that a progress bar is redrawn below the line.
    tqdm.write(line, file=sys.stderr)
