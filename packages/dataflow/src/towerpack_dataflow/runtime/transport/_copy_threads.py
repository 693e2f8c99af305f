"""Copies of a worker on a second thread, while its own one goes on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np

from ...batch._batch_allocator import Rows
from ...batch._batch_allocator import noop as nothing
from ._streaming import STREAMED, in_effect

__all__ = ["Copies"]

_LEAST_ROW = 2**14  # bytes; smaller ones take longer to hand over than to copy
_LEAST_BATCH = 4 * STREAMED
_STAGES = 4  # one is filled, one is copied, two give both some air


class Copies:
    """Writes to memory as fast as it goes, which one thread alone does not on most machines.

    NumPy copies without the interpreter lock, so the thread that makes datapoints can go on meanwhile. Where
    no processor is idle both ways take about the same time.
    """

    def __init__(self) -> None:
        """Starts the thread when there is something to copy."""
        self._orders: SimpleQueue[tuple[np.ndarray, np.ndarray]] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way: deque[np.ndarray] = deque()
        self._free: list[np.ndarray] = []

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copies flat arrays, large ones in two halves at the same time."""
        half = source.size // 2 if source.nbytes >= 2 * STREAMED else 0
        if half:
            self.wait()  # what is done next is the half
            self._order(source[:half], target[:half])
        target[half:] = source[half:]
        if half:
            self._done.get()

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """See `Memory.rows`: how the rows of a batch get into `buffer`."""
        row = buffer.nbytes // max(len(buffer), 1)
        fits = buffer.nbytes >= _LEAST_BATCH and _LEAST_ROW <= row < STREAMED
        if not fits or buffer.dtype.hasobject or not in_effect():
            return buffer, nothing
        staged = StagedRows(buffer, -(-STREAMED // row), self)
        return staged, staged.finish

    def stage(self) -> np.ndarray:
        """Memory for the rows of one copy."""
        if len(self._under_way) == _STAGES - 1:
            self._collect()
        return self._free.pop() if self._free else np.empty(2 * STREAMED, np.uint8)

    def carry(self, stage: np.ndarray, source: np.ndarray, target: np.ndarray) -> None:
        """Copies `source`, which lies in `stage`, some time before `wait` returns."""
        self._under_way.append(stage)
        self._order(source, target)

    def release(self, stage: np.ndarray) -> None:
        """Takes a stage back that nothing is copied from."""
        self._free.append(stage)

    def wait(self) -> None:
        """Until all that is carried is there."""
        while self._under_way:
            self._collect()

    def _collect(self) -> None:
        self._done.get()
        self._free.append(self._under_way.popleft())

    def _order(self, source: np.ndarray, target: np.ndarray) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="towerpack copies", daemon=True)
            self._thread.start()
        self._orders.put((source, target))

    def _work(self) -> None:
        while True:
            source, target = self._orders.get()
            np.copyto(target, source)
            del source, target  # a batch that nobody sees any longer is not kept by this one
            self._done.put(None)


class StagedRows:
    """The rows of a batch, on their way there in pieces that are large enough to go past the caches.

    A batch of many megabytes does not stay in a cache until it is read. Written row by row, each of its lines
    is read from main memory before it is written; in pieces, it is not.

    Args:
        buffer: the batch.
        length: rows in a piece.
        copies: carries them.
    """

    def __init__(self, buffer: np.ndarray, length: int, copies: Copies) -> None:
        """Has no row yet."""
        self._buffer = buffer
        self._length = length
        self._copies = copies
        self._begin = self._end = 0
        self._memory, self._rows = self._stage()

    def __setitem__(self, row: int, value: Any) -> None:
        """Takes the rows in their order; one may be given again before the next one."""
        place = row - self._begin
        if place == self._length:
            self._copies.carry(self._memory, self._rows, self._buffer[self._begin : row])
            self._memory, self._rows = self._stage()
            self._begin, place = row, 0
        self._rows[place] = value
        self._end = row + 1

    def finish(self) -> None:
        """Everything is in the batch."""
        rest = self._end - self._begin
        self._buffer[self._begin : self._end] = self._rows[:rest]
        self._copies.release(self._memory)
        self._copies.wait()

    def _stage(self) -> tuple[np.ndarray, np.ndarray]:
        memory = self._copies.stage()
        shape = (self._length, *self._buffer.shape[1:])
        return memory, np.ndarray(shape, self._buffer.dtype, memory.data)
