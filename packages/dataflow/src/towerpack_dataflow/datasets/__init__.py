"""Datasets as flows, and their statistics; optional dependencies are imported when a dataset is created."""

from ._bsds500 import BSDS500
from ._cifar import Cifar10, Cifar100
from ._download import DatasetFile, download
from ._ilsvrc12 import ILSVRC12, ILSVRC12Files, ILSVRCMeta
from ._image_arrays import Digits
from ._image_files import ImageFolder, ImageFolderFiles, Places365Standard
from ._mat_datasets import Caltech101Silhouettes, SVHNDigit
from ._mnist import FashionMnist, Mnist
from ._online_moments import OnlineMoments, StatCounter
from ._tiny_imagenet import TinyImageNet

# Sorted as everywhere: names in capitals are data sets, not constants.
__all__ = [  # noqa: RUF022
    "BSDS500",
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "DatasetFile",
    "Digits",
    "FashionMnist",
    "ILSVRC12",
    "ILSVRC12Files",
    "ILSVRCMeta",
    "ImageFolder",
    "ImageFolderFiles",
    "Mnist",
    "OnlineMoments",
    "Places365Standard",
    "SVHNDigit",
    "StatCounter",
    "TinyImageNet",
    "download",
]
