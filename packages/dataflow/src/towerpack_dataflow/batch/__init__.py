"""Batches: several datapoints as one, in memory that is used again."""

from ._batch_allocator import BatchAllocator, Rows, noop
from ._batch_data import BatchData
from ._buffer_pool import BufferPool, freeze
from ._collate import Collator

__all__ = ["BatchAllocator", "BatchData", "BufferPool", "Collator", "Rows", "freeze", "noop"]
