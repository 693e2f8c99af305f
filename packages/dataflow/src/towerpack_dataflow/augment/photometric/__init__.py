"""Changes of pixel values: colours, brightness, noise, normalisation."""

from ._brightness import Brightness, BrightnessScale, Contrast, Gamma
from ._colour import Hue, Lighting, Saturation
from ._convert import ColorSpace, Grayscale, ToFloat32, ToUint8
from ._noise import GaussianBlur, GaussianNoise, JpegNoise, SaltPepperNoise
from ._normalize import Clip, MeanVarianceNormalize, MinMaxNormalize, Normalize

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
