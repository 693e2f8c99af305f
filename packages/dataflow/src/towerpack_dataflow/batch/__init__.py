"""Batches: stacks datapoints, in reusable memory."""

from ._batch_data import BatchData
from ._batch_data_by_shape import BatchDataByShape
from ._buffer_pool import BatchAllocator, BufferPool, Rows, freeze, noop
from ._collate import Collator
from ._pad_batch_data import PadBatchData
from ._refit import refit
from ._window_data import WindowData

__all__ = [
    "BatchAllocator",
    "BatchData",
    "BatchDataByShape",
    "BufferPool",
    "Collator",
    "PadBatchData",
    "Rows",
    "WindowData",
    "freeze",
    "noop",
    "refit",
]
