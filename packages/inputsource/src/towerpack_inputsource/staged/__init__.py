"""Prefetching to the towers' devices, from any source that needs no feeding."""

from ._staging_input import StagingInput

__all__ = ["StagingInput"]
