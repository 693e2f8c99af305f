"""Caches of datapoints, in memory or on a disk."""

from ._cache_data import CacheData
from ._disk_cache import DiskCache
from ._memory_cache import MemoryCache

__all__ = ["CacheData", "DiskCache", "MemoryCache"]
