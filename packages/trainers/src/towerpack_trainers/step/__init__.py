"""The steps of a training: one or several in each session call, with the fetches of callbacks."""

from ._fused_steps import SpeedTrial

__all__ = ["SpeedTrial"]
