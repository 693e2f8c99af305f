"""The directory of a run's files: for one run at a time; earlier runs are moved aside."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import final

from towerpack_callbacks.checkpoint import latest_checkpoint
from towerpack_callbacks.writing import LOG, RUN_RECORD

from .._errors import ConfigError, LogDirTakenError
from ._directory_lock import LOCK_FILE, DirectoryLock

__all__ = ["RunDirectory"]

# The names of a run's files; all other files in the directory belong to the user.
_RUN_FILE = re.compile(
    rf"stats\.(jsonl|csv)|{re.escape(RUN_RECORD)}|{re.escape(LOG)}|events\.out\.tfevents\..+"
)
_CHECKPOINT = re.compile(r"(model|max-.+|min-.+)-\d+")

# The errors of a directory that cannot be renamed although its files can: it is a mount point, or its parent
# belongs to another file system or user.
_CANNOT_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
_EARLIER = "earlier"


@final
class RunDirectory:
    """The directory of one run's files; for a dry run, one that is removed at its end.

    No other run can use it at the same time: it is locked from `prepare` to the exit. Enter it for the
    duration of the run.

    Args:
        log_dir: the directory; None for no files.
        dry_run: whether this is a dry run.
        if_taken: the action if another running training uses it: "refuse", or "new" for a directory next to
            it, which is locked immediately.

    Raises:
        LogDirTakenError: another running training uses it, and `if_taken` is "refuse".
        ConfigError: it cannot be a directory.
    """

    def __init__(self, log_dir: Path | None, dry_run: bool = False, if_taken: str = "refuse") -> None:
        self.path = log_dir
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock: DirectoryLock | None = None
        self._unlock: list[Callable[[], object]] = []
        self._note = ""
        if log_dir is None:
            return
        if dry_run:
            self._temporary = tempfile.TemporaryDirectory(prefix="towerpack-dry-run-")
            self.path = Path(self._temporary.name)
        elif if_taken == "new":
            self.path = self._hold_any(log_dir)
        else:
            DirectoryLock.check_free(log_dir)

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for unlock in self._unlock:
            unlock()
        if self._temporary is not None:
            self._temporary.cleanup()

    def describe(self) -> str | None:
        """Returns the places of the run's files and of those of an earlier run; None without files."""
        if self.path is None or self._temporary is not None:
            return None
        return f"files of this run: {self.path}{self._note}"

    def prepare(self, resumed: Path | None = None, others: Iterable[Path] = ()) -> Path | None:
        """Makes the directory and locks it. An earlier run in it is moved to `<log_dir>.1` (or .2, …).

        Args:
            resumed: the checkpoint to resume. The run that wrote it stays in its place.
            others: further directories of this run, which are locked as well.

        Returns:
            The new place of the files of an earlier run; None if none were moved.

        Raises:
            LogDirTakenError: another running training uses one of them.
            ConfigError: the log directory cannot be used for this run.
        """
        own = None if self.path is None else os.path.realpath(self.path)
        elsewhere = [Path(place) for place in {os.path.realpath(other) for other in others} - {own}]
        for other in elsewhere:  # before anything is moved
            DirectoryLock.check_free(other)
        aside = None if self.path is None else self._prepare_own(self.path, resumed)
        for other in elsewhere:
            self._hold_other(other)
        return aside

    def _prepare_own(self, path: Path, resumed: Path | None) -> Path | None:
        self._hold(path)
        place = path.resolve()
        resuming = resumed is not None and resumed.resolve().is_relative_to(place)
        return None if resuming or not _holds_run(place) else self._move_aside(place)

    def _hold(self, directory: Path) -> None:
        _make_writable(directory)
        if self._lock is not None:
            return
        try:
            self._lock = DirectoryLock(directory.resolve())
        except OSError as error:
            raise ConfigError(
                f"log_dir={str(directory)!r} cannot be written to: {error}. Choose another directory."
            ) from error
        self._release_at_the_end(self._lock)

    def _hold_other(self, directory: Path) -> None:
        # Other problems with the directory are reported by its writer.
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            self._release_at_the_end(DirectoryLock(directory))

    def _release_at_the_end(self, lock: DirectoryLock) -> None:
        # Also for a trainer that never trains.
        self._unlock.append(weakref.finalize(self, lock.release))

    def _hold_any(self, log_dir: Path) -> Path:
        """Holds the directory, or else a new one next to it on the same disk, and returns it."""
        with contextlib.suppress(LogDirTakenError):
            self._hold(log_dir)
            return log_dir
        place = log_dir.resolve()
        beside = place / "run" if place.is_mount() else place
        for number in itertools.count(2):
            directory = beside.with_name(f"{beside.name}-{number}")
            if _make_new(directory):
                self._hold(directory)
                break
        self._note = f" ({log_dir} is used by another run)"
        return directory

    def _move_aside(self, place: Path) -> Path:
        if Path.cwd().is_relative_to(place):
            raise ConfigError(
                f"log_dir={str(self.path)!r} holds an earlier run, which cannot be moved aside: it is the "
                'working directory of this process. Choose a separate log_dir, or use resume="auto".'
            )
        assert self._lock is not None
        aside = _free_name(place)
        try:
            if _is_used_below(place):
                raise OSError(errno.EBUSY, "another running training uses a directory inside it")
            self._lock.rename_directory(aside)
        except OSError as error:
            if error.errno not in _CANNOT_RENAME:
                raise ConfigError(
                    f"log_dir={str(self.path)!r} holds an earlier run, which cannot be moved aside: {error}. "
                    "Choose another directory."
                ) from error
            aside = _free_name(place / _EARLIER)
            _move_contents(place, aside)
        self._note = f" (those of an earlier run are now in {aside})"
        return aside


def _make_new(directory: Path) -> bool:
    try:
        directory.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(
            f'if_log_dir_taken="new": {directory} cannot be made: {error}. Choose another log_dir=.'
        ) from error
    return True


def _make_writable(log_dir: Path) -> None:
    try:
        log_dir.resolve().mkdir(parents=True, exist_ok=True)  # for a dangling link: its target
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise ConfigError(
            f"log_dir={str(log_dir)!r} cannot be made: {error}. Choose another directory."
        ) from error
    if not os.access(log_dir, os.W_OK | os.X_OK):
        raise ConfigError(f"log_dir={str(log_dir)!r} cannot be written to. Choose another directory.")


def _holds_run(place: Path) -> bool:
    return latest_checkpoint(place) is not None or any(
        _RUN_FILE.fullmatch(path.name)
        or (_CHECKPOINT.fullmatch(path.name) and path.is_dir())
        or (path.name == "latest" and path.is_symlink())
        for path in place.iterdir()
    )


def _is_used_below(place: Path) -> bool:
    """Returns whether a running training uses a directory below this one."""
    directories = [Path(path) for path, _, files in os.walk(place) if LOCK_FILE in files]
    return any(_is_used(directory) for directory in directories if directory != place)


def _is_used(directory: Path) -> bool:
    try:
        DirectoryLock.check_free(directory)
    except LogDirTakenError:
        return True
    return False


def _move_contents(place: Path, aside: Path) -> None:
    """Moves the contents of a directory to a new directory in it, except for entries that must stay."""
    entries = [path for path in place.iterdir() if not _stays(path)]
    aside.mkdir()
    for path in entries:
        path.rename(aside / path.name)


def _stays(path: Path) -> bool:
    """Returns whether an entry belongs to the file system, to a running training, or to an earlier move."""
    if path.name in (LOCK_FILE, "lost+found") or re.fullmatch(rf"{_EARLIER}\.\d+", path.name):
        return True
    return path.is_mount() or (not path.is_symlink() and (_is_used(path) or _is_used_below(path)))


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{path.name}.{number}")):
        number += 1
    return candidate
