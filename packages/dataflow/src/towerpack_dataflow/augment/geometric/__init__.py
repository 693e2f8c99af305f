"""Geometric transforms: resize, flip, warp and paste."""

from ._deform import GaussianDeform
from ._flip import Flip, FlipTransform, Transpose, TransposeTransform
from ._paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from ._resize import AntialiasedResize, RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from ._rotation import Rotation, RotationAndCropValid
from ._warp import Affine, Shift, WarpAffineTransform

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
