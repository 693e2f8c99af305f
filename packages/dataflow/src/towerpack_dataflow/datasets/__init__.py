"""Datasets as flows, and their statistics; what a dataset needs is imported when one is made."""

from ._digits import Digits
from ._online_moments import OnlineMoments, StatCounter

__all__ = ["Digits", "OnlineMoments", "StatCounter"]
