"""Writes a log file with the console's lines and their times."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

from ..writing import LOG, LineFile, cut_lines_after, prepare_lines
from ._epoch_line import EpochLine
from ._monitor import Monitor

__all__ = ["LogFile"]

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
        self._open().say(self._line.take(self.trainer.loop))

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
