"""Prefetching to the towers' devices, from any source without feeds."""

from ._staging_input import StagingInput

__all__ = ["StagingInput"]
