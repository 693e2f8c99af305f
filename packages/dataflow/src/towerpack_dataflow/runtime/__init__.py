"""Flows run by worker processes and threads; `README.md` in this folder explains the design."""

from ._suggest_workers import available_cpus, suggest_workers

__all__ = ["available_cpus", "suggest_workers"]
