"""The directory of a run's files: for one run at a time; earlier runs are moved aside."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, final

from towerpack_callbacks.checkpoint import latest_checkpoint
from towerpack_callbacks.writing import LOG, RUN_RECORD

from .._errors import ConfigError, LogDirTakenError

__all__ = ["LOCK_FILE", "DirectoryLock", "RunDirectory"]


LOCK_FILE = ".running"

# The errors of file systems without locks.
_NO_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
# A mere check for a lock also holds it for an instant.
_ATTEMPTS, _PAUSE = 5, 0.05


@final
class _Holder(NamedTuple):
    """The process that holds a lock.

    Attributes:
        host: the name of its computer.
        pid: its process number there.
        started: the time of locking, for people.
        command: its command line, for people.
        system: identifies one boot of one computer, and one container on it.
        birth: the start of the process, in ticks since the boot, since process numbers are reused.
    """

    host: str
    pid: int
    started: str
    command: str
    system: str
    birth: str

    @classmethod
    def me(cls) -> _Holder:
        """Returns this process."""
        pid = os.getpid()
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        return cls(socket.gethostname(), pid, started, shlex.join(sys.argv), _system(), _birth(pid) or "")

    @classmethod
    def in_file(cls, file: Path) -> _Holder | None:
        """Reads the holder from a file; None if the file names no process yet."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def is_gone(self) -> bool:
        """Whether the process has certainly ended, which is known only on its own system."""
        return self.system == _system() and _birth(self.pid) != self.birth

    def __str__(self) -> str:
        is_me = self.system == _system() and self.pid == os.getpid()
        process = "this process" if is_me else f"process {self.pid}"
        return f"{process} on {self.host}, since {self.started} ({self.command})"


@final
class DirectoryLock:
    """Holds a directory until it is released, or until the process ends in any way.

    The system's lock on the file decides. If the file system has no locks, the file's content decides: the
    directory counts as used unless the named process has certainly ended.

    Args:
        directory: the directory to hold; it must exist.

    Raises:
        LogDirTakenError: another process holds it.
        OSError: the file cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._pid = os.getpid()
        self._file, self._descriptor = _take(directory)

    @staticmethod
    def check_free(directory: Path) -> None:
        """Checks whether a directory could be held now.

        Raises:
            LogDirTakenError: another process holds it.
        """
        _repeat_while_taken(lambda: _look(directory / LOCK_FILE))

    def rename_directory(self, target: Path) -> None:
        """Renames the directory, makes a new one with its old name and mode, and holds the new one instead.

        Raises:
            LogDirTakenError: another process already holds the new one.
            OSError: the directory cannot be renamed.
        """
        directory, old = self._file.parent, (target / LOCK_FILE, self._descriptor)
        directory.rename(target)
        try:
            directory.mkdir(exist_ok=True)
            shutil.copymode(target, directory)
            self._file, self._descriptor = _take(directory)
        except BaseException:
            self._file = old[0]
            raise
        _let_go(*old)

    def release(self) -> None:
        """Removes the file, so that others can hold the directory. A second call does nothing."""
        # A forked child has the object, but not the lock.
        if self._pid == os.getpid() and self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            _let_go(self._file, descriptor)


def _take(directory: Path) -> tuple[Path, int]:
    file = directory / LOCK_FILE
    descriptor = _repeat_while_taken(lambda: _acquire(file))
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(_Holder.me()._asdict(), indent=1).encode())
    return file, descriptor


def _let_go(file: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if _is_at(descriptor, file):
            file.unlink()
    os.close(descriptor)


def _repeat_while_taken(attempt: Callable[[], int | None]) -> int:
    """Returns the first result that is not None; after the last attempt, raises its error."""
    refused = 0
    while True:
        try:
            result = attempt()
        except LogDirTakenError:
            refused += 1
            if refused == _ATTEMPTS:
                raise
            time.sleep(_PAUSE)
            continue
        if result is not None:
            return result


def _look(file: Path) -> int:
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return 0  # no lock file
    try:
        _lock(descriptor, file, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    return 0


def _acquire(file: Path) -> int | None:
    """Returns a descriptor with the lock; None if the file was removed or replaced meanwhile."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if _lock(descriptor, file, fcntl.LOCK_EX) and _is_at(descriptor, file):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock(descriptor: int, file: Path, kind: int) -> bool:
    """Locks an open file; returns False if it belonged to a process that has ended, and was removed.

    Raises:
        LogDirTakenError: another process holds it.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        has_locks = error.errno not in _NO_LOCKS
        holder = _Holder.in_file(file)
        if holder is None and not has_locks:
            return True
        if holder is None or not holder.is_gone():
            raise _taken(file, holder) from None
        if not has_locks:
            return True
        # A forked child of that process still has the lock: workers may outlive a killed run.
        if _is_at(descriptor, file):
            file.unlink(missing_ok=True)
        return False
    return True


def _taken(file: Path, holder: _Holder | None) -> LogDirTakenError:
    return LogDirTakenError(
        f"{str(file.parent)!r} is used by another running training: "
        f"{holder or 'a process that has just begun'}. Wait until it has ended, or choose another directory "
        "as log_dir= (as checkpoint_dir= of a saver), "
        f'or TrainConfig(if_log_dir_taken="new") for a log_dir next to it. If no such process exists, '
        f"remove {file}."
    )


def _is_at(descriptor: int, file: Path) -> bool:
    """Returns whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _system() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _birth(pid: int) -> str | None:
    """Returns the start time of a process; None if it has ended."""
    try:
        # The name in parentheses may contain any characters.
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else fields[18]


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
