"""Geometric transforms: resize, flip, warp and paste."""

from ._flip import Flip, FlipTransform, Transpose, TransposeTransform
from ._paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from ._resize import AntialiasedResize, RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from ._warp import Affine, GaussianDeform, Rotation, RotationAndCropValid, Shift, WarpAffineTransform

__all__ = [
    "Affine",
    "AntialiasedResize",
    "BackgroundFiller",
    "CenterPaste",
    "ConstantBackgroundFiller",
    "Flip",
    "FlipTransform",
    "GaussianDeform",
    "RandomPaste",
    "RandomResize",
    "Resize",
    "ResizeShortestEdge",
    "ResizeTransform",
    "Rotation",
    "RotationAndCropValid",
    "Shift",
    "Transpose",
    "TransposeTransform",
    "WarpAffineTransform",
]
