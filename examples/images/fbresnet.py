"""The augmentation of ImageNet in fb.resnet.torch, for training and for evaluation.

See https://github.com/facebookarchive/fb.resnet.torch/blob/master/datasets/imagenet.lua.
"""

import cv2

from towerpack_dataflow.augment import (
    BrightnessScale,
    CenterCrop,
    Contrast,
    Flip,
    GoogleNetRandomCropAndResize,
    Lighting,
    RandomOrderAug,
    ResizeShortestEdge,
    Saturation,
)

# Of ImageNet's images: colours from 0 to 1, red first.
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
EIGENVALUES = [0.2175, 0.0188, 0.0045]
EIGENVECTORS = [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]


def augmentors_to_train(size):
    """Returns augmentors: a random part in random colours."""
    colours = [
        BrightnessScale((0.6, 1.4)),
        Contrast((0.6, 1.4), rgb=True),
        Saturation(0.4),
        Lighting(0.1 * 255, EIGENVALUES, EIGENVECTORS),
    ]
    part = GoogleNetRandomCropAndResize(target_shape=size, interp=cv2.INTER_CUBIC)
    return [part, RandomOrderAug(colours), Flip(horiz=True)]


def augmentors_to_evaluate(size):
    """Returns augmentors: the middle of the image, without an eighth of its shorter edge."""
    return [ResizeShortestEdge(size * 256 // 224, cv2.INTER_CUBIC), CenterCrop(size)]
