"""Blocks of batches that are built from datapoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any

from ..flow._columns import Blocks, block_of, datapoint_size
from ..flow._resume_marks import Marks
from ._collate import Collator

__all__ = ["BYTES_OF_BLOCK", "collated_blocks"]

# Larger blocks leave the processor's cache before they are used.
BYTES_OF_BLOCK = 2**18
# A step may wait for the first batch of a block.
_LONGEST_BLOCK = 2e-3  # seconds


def collated_blocks(
    datapoints: Iterator[Any],
    size: int,
    counts: tuple[int, int],
    new_collator: Callable[[int, int], Collator],
    marks: Callable[[], Marks],
    remainder: bool,
) -> Blocks:
    """Yields blocks of batches that are built together, as many as take little time.

    Args:
        datapoints: the datapoints of the batches.
        size: datapoints in a batch.
        counts: the maximum number of batches in the first block, which doubles, and in all blocks.
        new_collator: returns an empty collator for a number of datapoints, and of those read before it.
        marks: returns the marks after the last datapoint read.
        remainder: whether the last, smaller batch is yielded.

    Raises:
        Exception: an error of the datapoints, after the batches before it.
    """
    read, (count, most) = 0, counts
    following: list[Any] = []  # the first datapoint of the next block, if it was read already
    while True:
        deadline = perf_counter() + _LONGEST_BLOCK
        following = following or list(islice(datapoints, 1))
        if not following:
            return
        together = min(count, max(BYTES_OF_BLOCK // max(size * datapoint_size(following[0]), 1), 1))
        collator = new_collator(size * together, read)
        passed: list[Marks] = []
        try:
            collator.add(following.pop())
            while collator.extend(datapoints, size * (len(passed) + 1)):
                passed.append(marks())
                if len(passed) == together or perf_counter() > deadline:
                    break
                following = list(islice(datapoints, 1))
                if not following or not collator.offer(following[0]):
                    break
                following.clear()
        except Exception:
            if passed:
                yield block_of(collator.take(), size, len(passed)), len(passed), passed
            raise
        done, rest, rows = len(passed), collator.count % size, collator.take()
        if done:
            yield block_of(rows, size, done), done, passed
        if rest and remainder:
            yield block_of(rows, rest, 1, size * done), 1, [marks()]
        del rows
        read += size * done
        count = min(2 * count, most) if done >= together else max(done, 1)
