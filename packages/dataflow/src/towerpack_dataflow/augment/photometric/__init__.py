"""Changes of pixel values: colours, brightness, noise, normalisation."""

from ._brightness import Brightness, BrightnessScale, Contrast, Gamma, Hue, Lighting, Saturation
from ._noise import GaussianBlur, GaussianNoise, JpegNoise, SaltPepperNoise
from ._normalize import (
    Clip,
    ColorSpace,
    Grayscale,
    MeanVarianceNormalize,
    MinMaxNormalize,
    Normalize,
    ToFloat32,
    ToUint8,
)

__all__ = [
    "Brightness",
    "BrightnessScale",
    "Clip",
    "ColorSpace",
    "Contrast",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Hue",
    "JpegNoise",
    "Lighting",
    "MeanVarianceNormalize",
    "MinMaxNormalize",
    "Normalize",
    "SaltPepperNoise",
    "Saturation",
    "ToFloat32",
    "ToUint8",
]
