"""The console and the log file: statistics, and the summary line of an epoch."""

from __future__ import annotations

import logging
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from ..callback._every import LoopState, describe_seconds
from ..summaries._add_summary import is_of_input
from ..writing._line_file import LOG, LineFile, cut_lines_after, prepare_lines
from ..writing._screen import NotebookTable, is_in_notebook, print_line
from ._monitors import Monitor

__all__ = ["EpochLine", "LogFile", "ScalarPrinter"]


# A run that ends sooner shows no remaining time.
_FEWEST_SECONDS_LEFT = 60.0


@final
class FinishedEpoch(NamedTuple):
    """A finished epoch.

    Attributes:
        title: the number of the epoch, the steps, and the remaining time of the run.
        statistics: the statistics as text, by their names.
    """

    title: str
    statistics: Mapping[str, str]

    def line(self, space: str = " ") -> str:
        """Returns one line; `space` separates a name from its value."""
        pairs = (f"{name}{space}{value}" for name, value in self.statistics.items())
        return f"{self.title}{': ' if self.statistics else ''}{'  '.join(pairs)}"

    def row(self) -> dict[str, str]:
        """Returns the columns of a table."""
        return {"epoch": self.title.removeprefix("epoch "), **self.statistics}


@final
class EpochLine:
    """Collects the statistics of an epoch.

    Args:
        whitelist: regular expressions; only matching names are shown. None: those that callbacks declare.
        blacklist: regular expressions; matching names are not shown.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._begin: tuple[float, int] | None = None
        self._whitelist = None if whitelist is None else [re.compile(regex) for regex in whitelist]
        self._blacklist = [re.compile(regex) for regex in blacklist]
        self._places: dict[str, int] = {}
        self._latest: dict[str, float] = {}

    def expect(self, headlines: Sequence[str]) -> None:
        """Sets the statistics that the callbacks of the run declare, in their order."""
        names = [name for name in headlines if not is_of_input(name)]
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}

    def begin(self, loop: LoopState) -> None:
        """Marks the beginning of the run, from which the remaining time is estimated."""
        self._begin = self._clock(), loop.global_step

    def put(self, name: str, value: float) -> None:
        """Stores the latest value of a statistic."""
        if self._is_shown(name):
            self._latest[name] = value

    def take(self, loop: LoopState) -> FinishedEpoch:
        """Returns the finished epoch and starts the next one."""
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        shown = sorted(self._latest.items(), key=self._place)
        acted = f", env_steps {loop.env_steps}" if loop.env_steps else ""
        title = f"epoch {loop.epoch_num}{end}, step {loop.global_step}{acted}{self._time_left(loop)}"
        self.clear()
        return FinishedEpoch(title, {name: f"{value:.5g}" for name, value in shown})

    def _time_left(self, loop: LoopState) -> str:
        left = loop.steps_left
        if self._begin is None or not left:
            return ""
        since, first = self._begin
        done = loop.global_step - first
        seconds = (self._clock() - since) / done * left if done > 0 else 0.0
        return f", {describe_seconds(seconds)} left" if seconds >= _FEWEST_SECONDS_LEFT else ""

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


@final
class ScalarPrinter(Monitor):
    """Prints one line after each epoch, and messages immediately, to standard error.

    A terminal wraps lines at words and shows titles in colour, unless the variable `NO_COLOR` is set. In a
    notebook, the lines are the rows of a table that grows, and messages are ordinary output.

    The line has the statistics that callbacks declare (`Callback.headlines`: moving averages, evaluations),
    in the order of the callbacks, and the remaining time of the run if that is a minute or more. Statistics
    of the weights and of the input's queue are only in the files.

    Args:
        whitelist: regular expressions; only matching names are printed, declared or not. None: the declared
            ones.
        blacklist: regular expressions; matching names are not printed.
        verbose: without a whitelist, print all names that the blacklist does not match, declared or not.

    Example:
        >>> monitors = [ScalarPrinter(whitelist=["cost", "validation_.*"])]  # for TrainConfig(monitors=...)
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
        self._table: NotebookTable | None = None

    def _setup_graph(self) -> None:
        self._line.clear()

    def _before_train(self) -> None:
        self._line.begin(self.trainer.loop)
        self._table = NotebookTable() if is_in_notebook() else None

    def expect(self, headlines: Sequence[str]) -> None:
        self._line.expect(headlines)

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._line.put(name, value)

    def process_message(self, text: str) -> None:
        print_line(text)

    def _trigger(self) -> None:
        epoch = self._line.take(self.trainer.loop)
        if self._table is None:
            print_line(epoch.line("\xa0"), epoch.title)
        else:
            self._table.add(epoch.row())


_LOGGERS = tuple(
    f"towerpack_{wheel}" for wheel in ("dataflow", "inputsource", "layers", "callbacks", "trainers")
)


@final
class LogFile(Monitor):
    """Writes the lines of the console to a file in the log directory, with times; a resumed run appends.

    The file contains messages, one line for each epoch, and, from the first step to the last, the records of
    Towerpack's loggers at their configured level. Levels and console output are unchanged.

    Args:
        filename: name of the file in the log directory.

    Example:
        >>> monitors = [ScalarPrinter(), LogFile("console.log")]  # for TrainConfig(monitors=...)
    """

    def __init__(self, filename: str = LOG) -> None:
        self._filename = filename
        self._line = EpochLine()
        self._handler: _FileHandler | None = None

    def _setup_graph(self) -> None:
        self._line.clear()
        self._handler = None

    def expect(self, headlines: Sequence[str]) -> None:
        self._line.expect(headlines)

    def _before_train(self) -> None:
        self._line.begin(self.trainer.loop)
        handler = self._open()
        command = shlex.join(sys.orig_argv)
        handler.say(f"from step {self.global_step}, by {command}")
        for logger in map(logging.getLogger, _LOGGERS):
            logger.addHandler(handler)

    def _open(self) -> _FileHandler:
        # At first use, since messages may precede the training.
        if self._handler is None:
            self._handler = _FileHandler(self._directory() / self._filename)
        return self._handler

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._line.put(name, value)

    def process_message(self, text: str) -> None:
        self._open().say(text)

    def _trigger(self) -> None:
        self._open().say(self._line.take(self.trainer.loop).line())

    def _after_train(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            for logger in map(logging.getLogger, _LOGGERS):
                logger.removeHandler(handler)
            handler.say(f"ends at step {self.global_step}")
            handler.close()


@final
class _FileHandler(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        prepare_lines(path)
        if path.exists():
            cut_lines_after(path, lambda line: True)  # completes a torn line
        self._file: LineFile[str] = LineFile(path, _with_time)

    def say(self, text: str) -> None:
        with self.lock:  # type: ignore[union-attr]
            self._file.append([text])
            self._file.close()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.say(f"{record.levelname.lower()}: {self.format(record)}")
        except Exception:
            self.handleError(record)
        # Python prints warnings by itself only if there is no handler.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record):
            last.handle(record)

    def _is_alone(self, record: logging.LogRecord) -> bool:
        """Whether this is the first log file, and only log files handle the record."""
        logger: logging.Logger | None = logging.Logger.manager.getLogger(record.name)
        handlers: list[logging.Handler] = []
        while logger is not None:
            handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        return handlers[:1] == [self] and all(isinstance(handler, _FileHandler) for handler in handlers)


def _with_time(text: str) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}"
