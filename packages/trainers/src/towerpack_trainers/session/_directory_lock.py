"""A lock on a directory: a running process holds it, and a file in the directory names that process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import final

import attrs

from .._errors import LogDirTakenError

__all__ = ["LOCK_FILE", "DirectoryLock"]

LOCK_FILE = ".running"

# The errors of file systems without locks.
_NO_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
# A mere check for a lock also holds it for an instant.
_ATTEMPTS, _PAUSE = 5, 0.05


@final
@attrs.frozen
class _Holder:
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
    os.write(descriptor, json.dumps(attrs.asdict(_Holder.me()), indent=1).encode())
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
