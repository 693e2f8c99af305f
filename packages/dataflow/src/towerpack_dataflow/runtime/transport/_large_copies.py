"""Large copies: with a second thread of the worker, or bypassing the processor's caches."""

from __future__ import annotations

import functools
import os
import platform
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, final

import numpy as np

from ...batch._buffer_pool import Rows, noop

__all__ = [
    "CACHE_BYPASS",
    "CopyThread",
    "StagedRows",
    "bypass_environment",
    "caches_are_bypassed",
    "environment_before",
    "restore_environment",
]

CACHE_BYPASS = 2**22  # bytes; a copy of at least this size in one piece bypasses the caches

_LEAST_ROW = 2**14  # bytes; smaller rows are cheaper to copy than to hand over
_STAGES = 4  # one is filled, one is copied, two are in reserve
_SETTING = "glibc.cpu.x86_non_temporal_threshold"
_TUNABLES = "GLIBC_TUNABLES"


def bypass_environment() -> dict[str, str]:
    """Returns the environment variables that make a new process bypass the caches in large copies.

    A setting of the user is kept. The C library bypasses the caches itself from three quarters of the cache
    size on, but assumes that it has the whole cache of a host, so that on a virtual machine it hardly ever
    does. In a worker, large blocks are meant for another process.
    """
    tunables = os.environ.get(_TUNABLES, "")
    if _SETTING not in tunables:
        tunables = ":".join(filter(None, (tunables, f"{_SETTING}={CACHE_BYPASS}")))
    return {_TUNABLES: tunables}


def environment_before() -> str | None:
    """Returns the value of that variable without the setting, for the child processes of a worker."""
    return os.environ.get(_TUNABLES)


def restore_environment(tunables: str | None) -> None:
    """Restores the variable in a worker: its child processes should not bypass the caches."""
    caches_are_bypassed()  # its result is cached
    if tunables is None:
        os.environ.pop(_TUNABLES, None)
    else:
        os.environ[_TUNABLES] = tunables


@functools.cache
def caches_are_bypassed() -> bool:
    """Tells whether this process has that environment, and the C library supports the setting."""
    ours = f"{_SETTING}={CACHE_BYPASS}" in os.environ.get(_TUNABLES, "").split(":")
    return ours and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


@final
class CopyThread:
    """Copies memory at full speed, for which one thread is not enough on most machines.

    NumPy copies without the interpreter lock, so the thread that makes datapoints continues meanwhile. If no
    processor is idle, both ways take about the same time.

    Args:
        piece: bytes of a piece that bypasses the caches.
        least_row: bytes of the smallest row worth handing over.
        bypasses: whether pieces bypass the caches; `None` for the setting at the start of this process.
    """

    def __init__(
        self, piece: int = CACHE_BYPASS, least_row: int = _LEAST_ROW, bypasses: bool | None = None
    ) -> None:
        """Stores the arguments; the thread starts with the first copy."""
        self._piece = piece
        self._least_row = least_row
        self._bypasses = bypasses
        self._orders: SimpleQueue[tuple[np.ndarray, np.ndarray]] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way: deque[np.ndarray] = deque()
        self._free: list[np.ndarray] = []

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copies flat arrays, large ones in two parallel halves."""
        half = source.size // 2 if source.nbytes >= 2 * self._piece else 0
        if half:
            self.wait()  # the next copy is then the half
            self._order(source[:half], target[:half])
        target[half:] = source[half:]
        if half:
            self._done.get()

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """Returns the target for the rows of a batch in `buffer`, and a function that finishes it."""
        row = buffer.nbytes // max(len(buffer), 1)
        fits = buffer.nbytes >= 4 * self._piece and self._least_row <= row < self._piece
        if not fits or buffer.dtype.hasobject or not self._past_the_caches():
            return buffer, noop
        staged = StagedRows(buffer, -(-self._piece // row), self)
        return staged, staged.finish

    def stage(self) -> np.ndarray:
        """Returns memory to stage the rows of one copy."""
        if len(self._under_way) == _STAGES - 1:
            self._collect()
        return self._free.pop() if self._free else np.empty(2 * self._piece, np.uint8)

    def carry(self, stage: np.ndarray, source: np.ndarray, target: np.ndarray) -> None:
        """Copies `source`, a part of `stage`, before `wait` returns."""
        self._under_way.append(stage)
        self._order(source, target)

    def release(self, stage: np.ndarray) -> None:
        """Takes back an unused stage."""
        self._free.append(stage)

    def wait(self) -> None:
        """Waits until all copies are complete."""
        while self._under_way:
            self._collect()

    def _past_the_caches(self) -> bool:
        return caches_are_bypassed() if self._bypasses is None else self._bypasses

    def _collect(self) -> None:
        self._done.get()
        self._free.append(self._under_way.popleft())

    def _order(self, source: np.ndarray, target: np.ndarray) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="towerpack copies", daemon=True)
            self._thread.start()
        self._orders.put((source, target))

    def _run(self) -> None:
        while True:
            source, target = self._orders.get()
            np.copyto(target, source)
            del source, target  # does not keep a released batch alive
            self._done.put(None)


@final
class StagedRows:
    """The rows of a batch, copied into it in pieces large enough to bypass the caches.

    A batch of many megabytes does not stay in a cache until it is read. Written row by row, each of its cache
    lines is read from main memory before it is written; in pieces, it is not.

    Args:
        buffer: the batch.
        length: number of rows in a piece.
        copies: the thread that copies pieces.
    """

    def __init__(self, buffer: np.ndarray, length: int, copies: CopyThread) -> None:
        """Allocates memory for the first piece."""
        self._buffer = buffer
        self._length = length
        self._copies = copies
        self._begin = self._end = 0
        self._memory, self._rows = self._stage()

    def __setitem__(self, row: int, value: Any) -> None:
        """Stores the rows in order; a row may be stored again before the next one."""
        place = row - self._begin
        if place == self._length:
            self._copies.carry(self._memory, self._rows, self._buffer[self._begin : row])
            self._memory, self._rows = self._stage()
            self._begin, place = row, 0
        self._rows[place] = value
        self._end = row + 1

    def finish(self) -> None:
        """Completes the batch."""
        rest = self._end - self._begin
        self._buffer[self._begin : self._end] = self._rows[:rest]
        self._copies.release(self._memory)
        self._copies.wait()

    def _stage(self) -> tuple[np.ndarray, np.ndarray]:
        memory = self._copies.stage()
        shape = (self._length, *self._buffer.shape[1:])
        return memory, np.ndarray(shape, self._buffer.dtype, memory.data)
