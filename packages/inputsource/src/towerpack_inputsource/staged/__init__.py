"""Prefetching to the device, over any source that needs no feeding."""
