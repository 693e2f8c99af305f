"""The files of a run: names, lines that survive a crash, pictures, and writes in the background."""

from __future__ import annotations

import logging
import mmap
import os
import re
import struct
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar, final

import numpy as np

from ._atomic_write import atomic_write

__all__ = [
    "ENVIRONMENT",
    "EXPLANATION",
    "LOG",
    "PNG_CHANNELS",
    "RUN_RECORD",
    "RUN_RECORD_FORMAT",
    "BackgroundJob",
    "BackgroundWriter",
    "Batches",
    "LineFile",
    "cut_lines_after",
    "cut_pictures_after",
    "encode_png",
    "find_pictures",
    "free_name",
    "prepare_lines",
    "write_picture",
]


Item = TypeVar("Item")

# Enough for any burst; a stalled disk must slow down the loop, not fill the memory.
_CAPACITY = 10_000
# The number of further errors in the notes.
_NOTES = 5


@final
class BackgroundJob:
    """Runs jobs in a background thread, at most one at a time.

    Args:
        name: name of the thread.
        on_failure: called in that thread with the exception of a job, immediately.
    """

    def __init__(self, name: str, on_failure: Callable[[Exception], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._running: tuple[ThreadPoolExecutor, Future[None]] | None = None

    def start(self, job: Callable[[], None]) -> None:
        """Starts a job, after waiting for the previous one.

        Raises:
            Exception: the previous job raised it.
        """
        self.wait()
        pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._running = pool, _submit(pool, lambda: self._run(job))
        pool.shutdown(wait=False)  # the thread ends with the job

    def wait(self) -> None:
        """Waits for the running job, if any; a second call returns at once.

        Raises:
            Exception: the job raised it.
        """
        if self._running is not None:
            (pool, job), self._running = self._running, None
            pool.shutdown(wait=True)
            job.result()

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as failure:
            self._on_failure(failure)
            raise


@final
class BackgroundWriter:
    """Runs calls in a separate thread, one after another, in the order of submission.

    No submitted call is lost while the process can run Python: `flush` and the interpreter's exit wait for
    all calls, also if an exception ended the loop. The next `submit`, `flush` or `close` raises the exception
    of a failed call; the calls after it still run. If several have failed by then, the notes of the exception
    list the others.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._room = threading.Semaphore(_CAPACITY)
        self._errors: list[BaseException] = []
        self._pool: ThreadPoolExecutor | None = None
        self._close_pool: weakref.finalize[Any, Any] | None = None

    def submit(self, call: Callable[[], Any]) -> None:
        """Schedules `call()`. Blocks only while ten thousand other calls are pending."""
        room, errors = self._room, self._errors
        room.acquire()

        # It has no reference to the writer, which would prevent its garbage collection.
        def make() -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)
            finally:
                room.release()

        earlier = self._take_error()
        _submit(self._open(), make)  # also after an error of an earlier call
        if earlier is not None:
            raise earlier

    def flush(self) -> None:
        """Waits for all submitted calls, and raises the first of their exceptions."""
        if self._pool is not None:
            _submit(self._pool, _do_nothing).result()
        self._raise_error()

    def close(self) -> None:
        """Flushes and ends the thread. A later `submit` starts another."""
        if self._close_pool is not None:
            self._close_pool()
            self._pool = self._close_pool = None
        self._raise_error()

    def _open(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
            self._close_pool = weakref.finalize(self, _close, self._pool, os.getpid())
        return self._pool

    def _raise_error(self) -> None:
        error = self._take_error()
        if error is not None:
            raise error

    def _take_error(self) -> BaseException | None:
        errors = [self._errors.pop(0) for _ in range(len(self._errors))]
        if not errors:
            return None
        first, *others = errors
        for error in others[:_NOTES]:
            first.add_note(f"A later call of the thread {self._name!r} also failed: {error!r}")
        if len(others) > _NOTES:
            first.add_note(f"So did {len(others) - _NOTES} more.")
        return first


@final
class Batches(Generic[Item]):
    """Passes items to a background writer in batches: all items since the writer was last free.

    Rare items take one call each, and frequent items are combined in few calls.

    Args:
        writer: the writer that runs the calls.
        write: called with items in order, in the writer's thread.
    """

    def __init__(self, writer: BackgroundWriter, write: Callable[[list[Item]], None]) -> None:
        self._writer = writer
        self._write = write
        self._items: deque[Item] = deque()
        self._submitted = False

    def put(self, item: Item) -> None:
        """Schedules an item. Blocks only while ten thousand others are pending."""
        self._items.append(item)
        if not self._submitted:
            self._submitted = True
            self._writer.submit(self._drain)
        elif len(self._items) > _CAPACITY:
            self._writer.flush()

    def _drain(self) -> None:
        # First, because an item added from here on needs another call.
        self._submitted = False
        batch = []
        while self._items:
            batch.append(self._items.popleft())
        if batch:
            self._write(batch)


def _submit(pool: ThreadPoolExecutor, call: Callable[[], None]) -> Future[None]:
    """Submits a call to a pool, or runs it here if the pool is closed because the interpreter exits."""
    try:
        return pool.submit(call)
    except RuntimeError:
        # The main thread has ended, but a training in another thread is running; from now on it writes by
        # itself.
        pool.shutdown(wait=True)
    made: Future[None] = Future()
    try:
        call()
    except BaseException as error:
        made.set_exception(error)
    else:
        made.set_result(None)
    return made


def _do_nothing() -> None:
    """Does nothing: when this call runs, all earlier calls are done."""


def _close(pool: ThreadPoolExecutor, pid: int) -> None:
    if os.getpid() == pid:  # a forked child has the queue but not the thread
        pool.shutdown(wait=True)


_log = logging.getLogger("towerpack_callbacks")


@final
class LineFile(Generic[Item]):
    """Appends complete lines. Lines that could not be written are kept and written with the next ones.

    Args:
        path: the file; it is created with the first line.
        encode: converts an item to a line, without the line end.
    """

    def __init__(self, path: Path, encode: Callable[[Item], str]) -> None:
        self._path = path
        self._encode = encode
        self._unwritten = b""
        self._descriptor: int | None = None

    def append(self, items: Iterable[Item]) -> None:
        """Writes a line for each item.

        Raises:
            OSError: the lines cannot be written. The file still ends with a complete line.
        """
        self._unwritten += "".join(f"{self._encode(item)}\n" for item in items).encode("utf-8")
        self._write()

    def _write(self) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, self._unwritten)
            while written < len(self._unwritten):
                written += os.write(self._descriptor, self._unwritten[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            error.filename = str(self._path)  # a descriptor has no name
            raise
        self._unwritten = b""

    def close(self) -> None:
        """Writes the remaining lines and closes the file; the next line reopens it by name.

        Raises:
            OSError: the remaining lines cannot be written; the file is closed anyway.
        """
        try:
            if self._unwritten:
                self._write()
        finally:
            if self._descriptor is not None:
                descriptor, self._descriptor = self._descriptor, None
                os.close(descriptor)


def prepare_lines(path: Path) -> None:
    """Prepares the path of a file of lines that an earlier run may have left.

    A directory in its place is renamed. An incomplete last line, left by a killed process or a full disk,
    causes a warning.

    Raises:
        OSError: the directory cannot be renamed, or the file cannot be read.
    """
    if path.is_dir():
        aside = free_name(path)
        _log.warning("%s is a directory, expected a file; renamed it to %s.", path, aside.name)
        os.rename(path, aside)
    elif path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                _log.warning("%s ends with an incomplete line of a killed run.", path)


def free_name(path: Path) -> Path:
    """Returns a free path in the same directory: the name with the first free number appended."""
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{path.name}.{number}")):
        number += 1
    return candidate


def cut_lines_after(path: Path, is_kept: Callable[[bytes], bool]) -> None:
    """Truncates a file after the last line to keep, such as that of a checkpoint's step.

    Lines are checked from the end, so a long file costs no more than a short one. An incomplete last line is
    also checked, and completed with a line end if it is kept.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
            end = _end_of_last_kept(content, is_kept)
            ends_well = not end or content[end - 1 : end] == b"\n"
        file.truncate(end)
        if not ends_well:
            file.seek(end)
            file.write(b"\n")


def _end_of_last_kept(content: mmap.mmap, is_kept: Callable[[bytes], bool]) -> int:
    end = len(content)
    while end > 0:
        start = content.rfind(b"\n", 0, end - 1) + 1
        if is_kept(content[start:end]):
            return end
        end = start
    return 0


_FOLDER = "images"
_FILE = re.compile(r"(\d+)\.png")
# PNG's colour type by number of channels: grey, grey with alpha, RGB, RGBA.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
PNG_CHANNELS = frozenset(_COLOUR_TYPES)


def encode_png(image: np.ndarray) -> bytes:
    """Encodes an image as a PNG.

    Args:
        image: uint8 of shape [height, width, channels], with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels.
    """
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row starts with its filter type: 0 for no filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_picture(log_dir: Path, name: str, global_step: int, image: np.ndarray) -> Path:
    """Writes the picture of a step atomically, and returns its path.

    Args:
        log_dir: the run's directory.
        name: name of the series of pictures and of its folder.
        global_step: the number of finished steps.
        image: the image, as in `encode_png`.

    Raises:
        OSError: the file cannot be written.
    """
    path = log_dir / _FOLDER / name / f"{global_step:08d}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        aside.write_bytes(encode_png(image))
    return path


def find_pictures(log_dir: Path) -> dict[str, list[tuple[int, Path]]]:
    """Returns steps and paths of the pictures in a run's directory, by name of the series."""
    folders = (log_dir / _FOLDER).glob("*/")
    found = {folder.name: _pictures_in(folder) for folder in sorted(folders)}
    return {name: pictures for name, pictures in found.items() if pictures}


def cut_pictures_after(log_dir: Path, name: str, last_step: int) -> None:
    """Removes the pictures of steps after a checkpoint, since those steps will run again."""
    for step, path in _pictures_in(log_dir / _FOLDER / name):
        if step > last_step:
            path.unlink()


def _pictures_in(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_file())


RUN_RECORD = "run.jsonl"
RUN_RECORD_FORMAT = 1
LOG = "log.log"
EXPLANATION = "explain.txt"
ENVIRONMENT = "environment.txt"
