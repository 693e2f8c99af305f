"""The configuration of a training, and of rehearsals of it."""

from ._run_plan import RunPlan

__all__ = ["RunPlan"]
