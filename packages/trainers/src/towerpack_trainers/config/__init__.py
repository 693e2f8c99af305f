"""The configuration of a training, and of dry runs of it."""

from ._run_plan import RunPlan

__all__ = ["RunPlan"]
