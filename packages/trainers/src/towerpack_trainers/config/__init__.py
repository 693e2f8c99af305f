"""The configuration of a training, and of dry runs of it."""

from ._train_config import RunPlan

__all__ = ["RunPlan"]
