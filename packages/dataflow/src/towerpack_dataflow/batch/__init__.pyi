from ._buffer_pool import BatchAllocator, BufferPool

__all__ = ["BatchAllocator", "BufferPool"]
