"""Prints statistics on the console."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import final

from tqdm import tqdm

from ._epoch_line import EpochLine
from ._monitor import Monitor

__all__ = ["ScalarPrinter"]


@final
class ScalarPrinter(Monitor):
    """Prints one line after each epoch, and messages immediately, to standard error.

    The line has the statistics that callbacks declare (`Callback.headlines`: moving averages, evaluations),
    in the order of the callbacks. Statistics of the weights and of the input's queue are only in the files.

    Args:
        whitelist: regular expressions; only matching names are printed, declared or not. None: the declared
            ones.
        blacklist: regular expressions; matching names are not printed.
        verbose: without a whitelist, print all names that the blacklist does not match, declared or not.
    """

    def __init__(
        self,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] = (),
        *,
        verbose: bool = False,
    ) -> None:
        if verbose and whitelist is None:
            whitelist = [""]  # matches all names
        self._line = EpochLine(whitelist, blacklist)

    def _setup_graph(self) -> None:
        self._line.clear()

    def expect(self, headlines: Sequence[str]) -> None:
        self._line.expect(headlines)

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._line.put(name, value)

    def process_message(self, text: str) -> None:
        _print(text)

    def _trigger(self) -> None:
        _print(self._line.take(self.trainer.loop))


def _print(line: str) -> None:
    # By tqdm, so that a progress bar is redrawn below the line.
    tqdm.write(line, file=sys.stderr)
