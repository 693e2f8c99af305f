"""Callbacks that pass tensors and statistics to monitors, files and commands."""

from ._add_summary import summary_tag

__all__ = ["summary_tag"]
