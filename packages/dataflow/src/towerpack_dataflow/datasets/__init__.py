"""Datasets as flows; what they need is imported when one is made."""

from ._digits import Digits

__all__ = ["Digits"]
