"""The console and the log file: the line of an epoch, its progress, and messages.

The console is a terminal, a notebook, or a file or a pipe.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

from tqdm import tqdm

from ..callback._callback import Callback, StepFetch
from ..callback._every import Every, LoopState, describe_seconds
from ..summaries._add_summary import is_of_input
from ..summaries._summary_callbacks import MovingAverageSummary
from ..writing._line_file import LOG, LineFile, cut_lines_after, prepare_lines
from ._monitors import Monitor

__all__ = ["EpochLine", "LogFile", "ProgressBar", "ScalarPrinter"]


# A run that ends sooner shows no remaining time.
_FEWEST_SECONDS_LEFT = 60.0
_CYAN, _PLAIN = "\033[36m", "\033[0m"
_MOST_ROWS = 100
_SECONDS, _SECONDS_IN_A_FILE = 0.2, 30.0
_MOST_AVERAGES = 3  # more would leave no space for the bar


def is_in_notebook() -> bool:
    """Whether IPython runs this process as the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def has_colours() -> bool:
    """Whether standard error is a terminal with colours; the variable `NO_COLOR` turns them off."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_line(text: str, title: str = "") -> None:
    """Prints lines to standard error, above a progress bar; a notebook has them as ordinary output.

    On a terminal, lines are wrapped at spaces, and never at non-breaking ones.

    Args:
        text: the lines.
        title: the beginning of the text that has a colour.
    """
    stream = sys.stdout if is_in_notebook() else sys.stderr
    if stream.isatty():
        text = "\n".join(map(_wrapped, text.split("\n")))
        if title and has_colours() and text.startswith(title):
            text = f"{_CYAN}{title}{_PLAIN}{text[len(title) :]}"
    # By tqdm, so that a progress bar is redrawn below the line.
    tqdm.write(text.replace("\xa0", " "), file=stream)


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@final
class NotebookTable:
    """A table in the output of a notebook's cell that grows by a row; it shows the last hundred rows."""

    def __init__(self) -> None:
        """Shows nothing before the first row."""
        self._rows: list[Mapping[str, str]] = []
        self._handle: Any = None

    def add(self, row: Mapping[str, str]) -> None:
        """Adds a row, given by its columns."""
        display = importlib.import_module("IPython.display").display
        self._rows = [*self._rows, row][-_MOST_ROWS:]
        shown = {"text/html": self._html(), "text/plain": "\n".join(map(_plain, self._rows))}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _html(self) -> str:
        columns = dict.fromkeys(name for row in self._rows for name in row)
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = ("".join(f"<td>{escape(row.get(name, ''))}</td>" for name in columns) for row in self._rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plain(row: Mapping[str, str]) -> str:
    return "  ".join(f"{name} {value}" for name, value in row.items())


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


@final
class _Bar(tqdm):  # type: ignore[type-arg]
    """A tqdm bar without a monitor thread, which would outlive the training."""

    monitor_interval = 0

    @property
    def format_dict(self) -> Any:
        """The arguments of the line."""
        arguments = super().format_dict
        # A terminal of unknown width has 0 columns. tqdm leaves one empty, and never ends to cut a line with
        # colours or wide characters to -1 columns (tqdm 4.67).
        arguments["ncols"] = None if (arguments["ncols"] or 0) < 0 else arguments["ncols"]
        return arguments


def _notebook_bar() -> type[tqdm[Any]]:
    if importlib.util.find_spec("ipywidgets") is None:
        return _Bar
    from tqdm.notebook import tqdm_notebook

    return type("_NotebookBar", (tqdm_notebook,), {"monitor_interval": 0})


@final
class _Lines(io.TextIOBase):
    """Standard error without a terminal: each state of the bar becomes a new line."""

    def write(self, text: str) -> int:
        if shown := text.strip():
            sys.stderr.write(f"{shown}\n")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


@final
class ProgressBar(Callback):
    """Shows each epoch's progress, with tqdm, on standard error.

    Log lines are printed above the bar. In a notebook the bar is a widget, or text without `ipywidgets`. If
    standard error is neither of them, an epoch longer than half a minute prints a line every half minute
    instead of a bar.

    Args:
        names: one or more names of scalar tensors to show next to the bar.
        every_k_steps: the period of fetching them.
        averages: the callback with the moving averages of the run, of which the bar shows the first three. It
            reads them when it is redrawn, so they add no work to a step.

    Example:
        >>> extra_callbacks = [ProgressBar(["cost", "accuracy"])]  # for TrainConfig(extra_callbacks=...)
    """

    def __init__(
        self,
        names: str | Sequence[str] = (),
        every_k_steps: int = 10,
        *,
        averages: MovingAverageSummary | None = None,
    ) -> None:
        self._averages = averages
        self._names = (names,) if isinstance(names, str) else tuple(names)
        self._every = Every(steps=every_k_steps)
        self._tensors: list[Any] = []
        self._bar: tqdm[Any] | None = None
        self._logs = contextlib.ExitStack()

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)
        self._fetched: dict[str, float] = {}

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._show, self._every)] if self._tensors else []

    def _show(self, values: list[float]) -> None:
        if self._bar is not None:
            self._fetched = dict(zip(self._names, values))

    def _before_epoch(self) -> None:
        loop = self.trainer.loop
        first = loop.starting_step if loop.epoch_num == loop.starting_epoch else 0
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        title = f"epoch {loop.epoch_num}{end}"
        if self._bar is not None:  # in a notebook
            self._bar.reset(loop.steps_per_epoch)
            self._bar.set_description(title, refresh=False)
            return
        if is_in_notebook():
            bar = _notebook_bar()
            options: dict[str, Any] = {"file": sys.stdout, "leave": False}
        else:
            bar, options = _Bar, self._options_outside_notebooks()
        self._bar = bar(
            desc=title,
            total=loop.steps_per_epoch,
            initial=first,
            unit="step",
            mininterval=0,  # our period limits updates
            miniters=1,
            **options,
        )

    def _options_outside_notebooks(self) -> dict[str, Any]:
        self._logs.enter_context(_redirected_logs())
        if not sys.stderr.isatty():
            return {"file": _Lines(), "delay": _SECONDS_IN_A_FILE, "leave": False}
        return {"file": sys.stderr, "dynamic_ncols": True, "colour": "green" if has_colours() else None}

    def step_period(self) -> Every:
        return Every(seconds=_SECONDS if is_in_notebook() or sys.stderr.isatty() else _SECONDS_IN_A_FILE)

    def _trigger_step(self) -> None:
        if self._bar is not None:
            shown = {
                name: f"{value:.4g}" for name, value in {**self._fetched, **self._read_averages()}.items()
            }
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update(self.trainer.loop.local_step + 1 - self._bar.n)

    def _read_averages(self) -> dict[str, float]:
        if self._averages is None:
            return {}
        averages = self._averages.averages().items()
        return dict(islice((item for item in averages if not is_of_input(item[0])), _MOST_AVERAGES))

    def _after_epoch(self) -> None:
        self._trigger_step()
        if not is_in_notebook():  # where one bar serves all epochs
            self._close()

    def _after_train(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        self._logs.close()


@contextlib.contextmanager
def _redirected_logs() -> Iterator[None]:
    """Prints records of handlers that write to the console above the bar; then restores these handlers."""
    # Its import warns in a notebook without ipywidgets.
    from tqdm.contrib.logging import logging_redirect_tqdm

    loggers = _loggers_of_consoles()
    begun: list[list[logging.Handler]] = []
    ended = begun
    try:
        with logging_redirect_tqdm(loggers, _Bar):
            begun = [list(logger.handlers) for logger in loggers]
            try:
                yield
            finally:
                ended = [list(logger.handlers) for logger in loggers]
    finally:  # tqdm restores the old lists, without the changes by other code
        for logger, old, new in zip(loggers, begun, ended):
            for handler in new:
                if handler not in old:
                    logger.addHandler(handler)
            for handler in old:
                if handler not in new:
                    logger.removeHandler(handler)


def _loggers_of_consoles() -> list[logging.Logger]:
    """Returns the loggers that would write into the bar, including the root with its last-resort handler."""
    named = [
        logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)
    ]
    streams = {sys.stdout, sys.stderr}
    return [
        logging.root,
        *(logger for logger in named if any(getattr(h, "stream", None) in streams for h in logger.handlers)),
    ]


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
