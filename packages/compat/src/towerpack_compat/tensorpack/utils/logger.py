"""`tensorpack.utils.logger`: the logger, and the directory for the files of a program."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["auto_set_dir", "directory", "get_logger_dir", "set_logger_dir"]

_log = logging.getLogger("towerpack_compat")
_logger = _log  # programs and tests use this name
_LINES = logging.Formatter("[%(asctime)s @%(filename)s:%(lineno)d] %(levelname)s %(message)s")
if not _log.handlers:
    _console = logging.StreamHandler(sys.stdout)
    _console.setFormatter(_LINES)
    _log.addHandler(_console)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    # Tensorpack has one logger, so `log.log` also contains the log lines of Towerpack's packages.
    _forward = logging.Handler()
    _forward.emit = _log.handle  # type: ignore[method-assign,assignment]
    for _wheel in ("callbacks", "dataflow", "inputsource", "layers", "trainers"):
        _of_wheel = _log.manager.getLogger(f"towerpack_{_wheel}")
        _of_wheel.addHandler(_forward)
        _of_wheel.setLevel(logging.INFO if _wheel in ("layers", "trainers") else logging.WARNING)
        _of_wheel.propagate = False

info, debug, warning, error, critical = _log.info, _log.debug, _log.warning, _log.error, _log.critical
warn, exception, setLevel, isEnabledFor = _log.warning, _log.exception, _log.setLevel, _log.isEnabledFor
LOG_DIR: str | None = None


def _log_to(path: Path) -> None:
    for handler in [each for each in _log.handlers if isinstance(each, logging.FileHandler)]:
        _log.removeHandler(handler)
        handler.close()
    if path.is_file():
        path.rename(path.with_name(f"{path.name}.{datetime.now():%m%d-%H%M%S}"))
    handler = logging.FileHandler(path)
    handler.setFormatter(_LINES)
    _log.addHandler(handler)
    _log.info("Argv: %s", " ".join(sys.argv))


def set_logger_dir(dirname: Any, action: str | None = None) -> None:
    """Sets the directory for the program's files, and writes `log.log` there.

    Args:
        dirname: the directory.
        action: the action for the directory of an earlier run: "b" renames it, "d" deletes it, "k" keeps it,
            "n" appends the time to the name of the new one. None asks on a terminal; elsewhere it renames.

    Raises:
        ValueError: `action` has another value.
    """
    global LOG_DIR
    directory = Path(os.path.normpath(dirname))
    holds_a_run = directory.is_dir() and any(
        path.name == "checkpoint" or path.name.endswith(".log") or path.name.startswith("events.out")
        for path in directory.iterdir()
    )
    if holds_a_run:
        directory = _resolved(directory, action)
    directory.mkdir(parents=True, exist_ok=True)
    LOG_DIR = str(directory)
    _log_to(directory / "log.log")


def _resolved(directory: Path, action: str | None) -> Path:
    time = f"{datetime.now():%m%d-%H%M%S}"
    if action is None and not sys.stdin.isatty():
        print(f"The log directory {directory} has an earlier run; renaming it.")
        action = "b"
    elif action is None:
        print(f"The log directory {directory} has an earlier run. Rename, delete, keep, or new? [b/d/k/n]")
        action = input().lower().strip()
    if action == "b":
        directory.rename(f"{directory}_bk{time}")
    elif action == "d":
        shutil.rmtree(directory)
    elif action == "n":
        return directory.with_name(f"{directory.name}_{time}")
    elif action != "k":
        raise ValueError(f'set_logger_dir expects action="b", "d", "k" or "n", received {action!r}.')
    return directory


def auto_set_dir(action: str | None = None, name: str | None = None) -> None:
    """Sets the directory to `train_log/<script>`; see `set_logger_dir`.

    Args:
        action: see `set_logger_dir`.
        name: appended to the directory's name.
    """
    script = os.path.basename(sys.argv[0] or "interactive")
    directory = os.path.join("train_log", script[: script.rfind(".")] if "." in script else script)
    set_logger_dir(f"{directory}:{name}" if name else directory, action)


def get_logger_dir() -> str | None:
    """Returns the directory, or None if it is not set."""
    return LOG_DIR


def directory() -> Path:
    """Returns the directory.

    Raises:
        RuntimeError: the directory is not set.
    """
    if LOG_DIR is None:
        raise RuntimeError(
            "The log directory is not set: call logger.set_logger_dir(...) or logger.auto_set_dir() first."
        )
    return Path(LOG_DIR)
