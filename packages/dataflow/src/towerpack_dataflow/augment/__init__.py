"""Augmentation of images with their coordinates, boxes and masks; image files."""

from ._augmentor import ImageAugmentor, PhotometricAugmentor, drawing_from
from ._augmentor_list import (
    AugmentorList,
    Identity,
    LazyTransform,
    MapImage,
    RandomApplyAug,
    RandomChooseAug,
    RandomOrderAug,
)
from ._decode_image import decode_image, read_image
from ._external import Albumentations, RandomMapImage
from ._transform import NoOpTransform, PhotometricTransform, Transform, TransformFactory, TransformList
from .crop import (
    CenterCrop,
    CropTransform,
    GoogleNetRandomCropAndResize,
    RandomCrop,
    RandomCropRandomShape,
    RandomCutout,
    RandomErasing,
)
from .flows import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates, ImageFromFile
from .geometric._flip import Flip, FlipTransform, Transpose, TransposeTransform
from .geometric._paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from .geometric._resize import AntialiasedResize, RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from .geometric._warp import (
    Affine,
    GaussianDeform,
    Rotation,
    RotationAndCropValid,
    Shift,
    WarpAffineTransform,
)
from .photometric._brightness import Brightness, BrightnessScale, Contrast, Gamma, Hue, Lighting, Saturation
from .photometric._noise import GaussianBlur, GaussianNoise, JpegNoise, SaltPepperNoise
from .photometric._normalize import (
    Clip,
    ColorSpace,
    Grayscale,
    MeanVarianceNormalize,
    MinMaxNormalize,
    Normalize,
    ToFloat32,
    ToUint8,
)
from .policies import CutMix, MixUp, RandAugment, TrivialAugment

__all__ = [
    "Affine",
    "Albumentations",
    "AntialiasedResize",
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "Augmentor",
    "AugmentorList",
    "BackgroundFiller",
    "Brightness",
    "BrightnessScale",
    "CenterCrop",
    "CenterPaste",
    "Clip",
    "ColorSpace",
    "ConstantBackgroundFiller",
    "Contrast",
    "CropTransform",
    "CutMix",
    "Flip",
    "FlipTransform",
    "Gamma",
    "GaussianBlur",
    "GaussianDeform",
    "GaussianNoise",
    "GoogleNetRandomCropAndResize",
    "Grayscale",
    "Hue",
    "Identity",
    "ImageAugmentor",
    "ImageFromFile",
    "JpegNoise",
    "LazyTransform",
    "Lighting",
    "MapImage",
    "MeanVarianceNormalize",
    "MinMaxNormalize",
    "MixUp",
    "NoOpTransform",
    "Normalize",
    "PhotometricAugmentor",
    "PhotometricTransform",
    "RandAugment",
    "RandomApplyAug",
    "RandomChooseAug",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
    "RandomErasing",
    "RandomMapImage",
    "RandomOrderAug",
    "RandomPaste",
    "RandomResize",
    "Resize",
    "ResizeShortestEdge",
    "ResizeTransform",
    "Rotation",
    "RotationAndCropValid",
    "SaltPepperNoise",
    "Saturation",
    "Shift",
    "ToFloat32",
    "ToUint8",
    "Transform",
    "TransformFactory",
    "TransformList",
    "Transpose",
    "TransposeTransform",
    "TrivialAugment",
    "WarpAffineTransform",
    "decode_image",
    "drawing_from",
    "read_image",
]

Augmentor = ImageAugmentor
