"""Layers that give their input another height and width."""

from ._pooling import AvgPooling, GlobalAvgPooling, MaxPooling

__all__ = [
    "AvgPooling",
    "GlobalAvgPooling",
    "MaxPooling",
]
