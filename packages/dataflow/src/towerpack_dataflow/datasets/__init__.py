"""Datasets as flows, and their statistics; what a dataset needs is imported when one is made."""

from ._cifar import Cifar10, Cifar100
from ._digits import Digits
from ._download import DatasetFile, download
from ._mat_datasets import Caltech101Silhouettes, SVHNDigit
from ._mnist import FashionMnist, Mnist
from ._online_moments import OnlineMoments, StatCounter

__all__ = [
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "DatasetFile",
    "Digits",
    "FashionMnist",
    "Mnist",
    "OnlineMoments",
    "SVHNDigit",
    "StatCounter",
    "download",
]
