"""The number of consecutive datapoints for one worker, which then decodes their part of a file once."""

from __future__ import annotations

from ..batch._batch_data import BatchData
from ..flow._flow import DataFlow
from ..flow._tree_fingerprint import known_length
from ..operators._shard import ShardData

__all__ = ["contiguous"]

_FEWEST = 4  # ranges of each worker in a pass: with fewer, one worker may have to wait for another


def contiguous(flow: DataFlow, workers: int) -> int:
    """Returns the number of consecutive datapoints of a flow for one worker.

    Workers that take turns within a row group of Parquet would all decode it.

    Args:
        flow: the flow of the workers.
        workers: their number.
    """
    rows, top = 1, flow
    while not (together := getattr(top, "_decoded_together", 0)):
        if len(top.children()) != 1:
            return 1
        rows *= top._batch_size if isinstance(top, BatchData) else 1
        rows *= top._count if isinstance(top, ShardData) else 1
        top = top.children()[0]
    return max(min(together // rows, (known_length(flow) or 0) // (_FEWEST * workers)), 1)
