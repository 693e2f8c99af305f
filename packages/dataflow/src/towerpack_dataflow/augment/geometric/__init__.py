"""Geometric transforms: resize, flip, warp and paste."""
