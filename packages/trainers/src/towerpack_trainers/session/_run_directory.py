"""The directory of a run's files: for one run at a time, and an earlier run in it is moved aside."""

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

# What the files of a run are called; anything else in the directory is the user's.
_RUN_FILE = re.compile(
    rf"stats\.(jsonl|csv)|{re.escape(RUN_RECORD)}|{re.escape(LOG)}|events\.out\.tfevents\..+"
)
_CHECKPOINT = re.compile(r"(model|max-.+|min-.+)-\d+")

# Why a directory cannot be renamed while its files can: it is a mount point, or the one around it is
# another file system or not this user's.
_CANNOT_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
_EARLIER = "earlier"


@final
class RunDirectory:
    """The directory of one run's files; for a rehearsal, one that is removed when the rehearsal ends.

    No other run uses it at the same time: from `prepare` to the exit it is locked. Enter it for as long as
    the run lasts.

    Args:
        log_dir: where the files belong; None for no files.
        rehearsal: whether the run is to be forgotten.
        if_taken: what to do if a run that goes on uses it: "refuse", or "new" for a directory beside it,
            which is locked at once.

    Raises:
        LogDirTakenError: a run that goes on uses it, and that is refused.
        ConfigError: it cannot be a directory.
    """

    def __init__(self, log_dir: Path | None, rehearsal: bool = False, if_taken: str = "refuse") -> None:
        self.path = log_dir
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock: DirectoryLock | None = None
        self._unlock: list[Callable[[], object]] = []
        self._note = ""
        if log_dir is None:
            return
        if rehearsal:
            self._temporary = tempfile.TemporaryDirectory(prefix="towerpack-rehearsal-")
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
        """Says where the files of the run are, and where those of an earlier one; None without files."""
        if self.path is None or self._temporary is not None:
            return None
        return f"files of this run: {self.path}{self._note}"

    def prepare(self, resumed: Path | None = None, others: Iterable[Path] = ()) -> Path | None:
        """Makes the directory and locks it. An earlier run in it is moved to `<log_dir>.1` (or .2, …).

        Args:
            resumed: the checkpoint that this run goes on from. A run of which that is one stays in its place.
            others: further directories that this run writes to, which are locked, too.

        Returns:
            Where the files of an earlier run are now; None if none were moved.

        Raises:
            LogDirTakenError: a run that goes on uses one of them.
            ConfigError: it cannot be a directory of this run.
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
                f"log_dir={str(directory)!r} cannot be written to: {error}. Give another directory."
            ) from error
        self._release_at_the_end(self._lock)

    def _hold_other(self, directory: Path) -> None:
        # What is wrong with the directory is said by who writes there.
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            self._release_at_the_end(DirectoryLock(directory))

    def _release_at_the_end(self, lock: DirectoryLock) -> None:
        # Also of a trainer that never trains.
        self._unlock.append(weakref.finalize(self, lock.release))

    def _hold_any(self, log_dir: Path) -> Path:
        """Holds the directory, or else a new one beside it on the same disk, and returns it."""
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
                f"log_dir={str(self.path)!r} holds an earlier run, which cannot be moved aside: this process "
                'works in that directory. Give one of its own, or resume="auto".'
            )
        assert self._lock is not None
        aside = _free_name(place)
        try:
            if _is_used_below(place):
                raise OSError(errno.EBUSY, "a run goes on in a directory of it")
            self._lock.rename_directory(aside)
        except OSError as error:
            if error.errno not in _CANNOT_RENAME:
                raise ConfigError(
                    f"log_dir={str(self.path)!r} holds an earlier run, which cannot be moved aside: {error}. "
                    "Give another directory."
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
            f'if_log_dir_taken="new": {directory} cannot be made: {error}. Give another log_dir=.'
        ) from error
    return True


def _make_writable(log_dir: Path) -> None:
    try:
        log_dir.resolve().mkdir(parents=True, exist_ok=True)  # of a link that leads nowhere: its target
    except (OSError, RuntimeError) as error:  # RuntimeError: of links in a circle
        raise ConfigError(
            f"log_dir={str(log_dir)!r} cannot be made: {error}. Give another directory."
        ) from error
    if not os.access(log_dir, os.W_OK | os.X_OK):
        raise ConfigError(f"log_dir={str(log_dir)!r} cannot be written to. Give another directory.")


def _holds_run(place: Path) -> bool:
    return latest_checkpoint(place) is not None or any(
        _RUN_FILE.fullmatch(path.name)
        or (_CHECKPOINT.fullmatch(path.name) and path.is_dir())
        or (path.name == "latest" and path.is_symlink())
        for path in place.iterdir()
    )


def _is_used_below(place: Path) -> bool:
    """Whether a run goes on in a directory below this one."""
    directories = [Path(path) for path, _, files in os.walk(place) if LOCK_FILE in files]
    return any(_is_used(directory) for directory in directories if directory != place)


def _is_used(directory: Path) -> bool:
    try:
        DirectoryLock.check_free(directory)
    except LogDirTakenError:
        return True
    return False


def _move_contents(place: Path, aside: Path) -> None:
    """Moves what is in a directory to a new one in it, but for what must stay."""
    entries = [path for path in place.iterdir() if not _stays(path)]
    aside.mkdir()
    for path in entries:
        path.rename(aside / path.name)


def _stays(path: Path) -> bool:
    """Whether something is of the file system, of a run that goes on, or of one that was moved before."""
    if path.name in (LOCK_FILE, "lost+found") or re.fullmatch(rf"{_EARLIER}\.\d+", path.name):
        return True
    return path.is_mount() or (not path.is_symlink() and (_is_used(path) or _is_used_below(path)))


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{path.name}.{number}")):
        number += 1
    return candidate
