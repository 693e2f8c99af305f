"""`tensorpack.dataflow.dataset`: folders, shuffling and the order of colours as Tensorpack has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from towerpack_dataflow import datasets

from .utils.functions import get_dataset_path

__all__ = [
    "BSDS500",
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "CifarBase",
    "FashionMnist",
    "ILSVRC12",
    "ILSVRCMeta",
    "Mnist",
    "Places365Standard",
    "SVHNDigit",
    "TinyImageNet",
]


class _BlueFirst:
    """Gives images as OpenCV reads them: blue, green, red."""

    def datapoint(self, epoch: Any, index: int) -> Any:
        image, *rest = super().datapoint(epoch, index)  # type: ignore[misc]
        return [np.ascontiguousarray(image[..., ::-1]), *rest]


class Mnist(datasets.Mnist):
    """See `towerpack_dataflow.datasets.Mnist`; both parts are shuffled."""

    def __init__(self, train_or_test: Any, shuffle: bool = True, dir: Any = None) -> None:
        super().__init__(train_or_test, shuffle, dir or get_dataset_path("mnist_data"))


class FashionMnist(datasets.FashionMnist):
    """See `towerpack_dataflow.datasets.FashionMnist`; both parts are shuffled."""

    def __init__(self, train_or_test: Any, shuffle: bool = True, dir: Any = None) -> None:
        super().__init__(train_or_test, shuffle, dir or get_dataset_path("fashion_mnist_data"))


class Cifar10(datasets.Cifar10):
    """See `towerpack_dataflow.datasets.Cifar10`."""

    def __init__(self, train_or_test: Any, shuffle: bool | None = None, dir: Any = None) -> None:
        super().__init__(train_or_test, shuffle, dir or get_dataset_path("cifar10_data"))


class Cifar100(datasets.Cifar100):
    """See `towerpack_dataflow.datasets.Cifar100`."""

    def __init__(self, train_or_test: Any, shuffle: bool | None = None, dir: Any = None) -> None:
        super().__init__(train_or_test, shuffle, dir or get_dataset_path("cifar100_data"))


def CifarBase(
    train_or_test: Any, shuffle: bool | None = None, dir: Any = None, cifar_classnum: int = 10
) -> Cifar10 | Cifar100:
    """Returns `Cifar10` or `Cifar100`."""
    return {10: Cifar10, 100: Cifar100}[cifar_classnum](train_or_test, shuffle, dir)


class SVHNDigit(datasets.SVHNDigit):
    """See `towerpack_dataflow.datasets.SVHNDigit`; every part is shuffled."""

    def __init__(self, name: Any, data_dir: Any = None, shuffle: bool = True) -> None:
        super().__init__(name, shuffle, data_dir or get_dataset_path("svhn_data"))


class Caltech101Silhouettes(datasets.Caltech101Silhouettes):
    """See `towerpack_dataflow.datasets.Caltech101Silhouettes`; every part is shuffled."""

    def __init__(self, name: Any, shuffle: bool = True, dir: Any = None) -> None:
        super().__init__(name, shuffle, dir or get_dataset_path("caltech101_data"))


class BSDS500(_BlueFirst, datasets.BSDS500):
    """See `towerpack_dataflow.datasets.BSDS500`; BGR, and every part is shuffled."""

    def __init__(self, name: Any, data_dir: Any = None, shuffle: bool = True) -> None:
        super().__init__(name, shuffle, data_dir or get_dataset_path("bsds500_data"))


class ILSVRCMeta(datasets.ILSVRCMeta):
    """See `towerpack_dataflow.datasets.ILSVRCMeta`; its mean is BGR."""

    def __init__(self, dir: Any = None) -> None:
        super().__init__(dir or get_dataset_path("ilsvrc_metadata"))

    def get_per_pixel_mean(self, size: Any = None) -> Any:
        """Returns the mean of the training images, BGR, an array [256, 256, 3] or of another size."""
        mean = super().get_per_pixel_mean() if size is None else super().get_per_pixel_mean(size)
        return np.ascontiguousarray(mean[..., ::-1])


class ILSVRC12(_BlueFirst, datasets.ILSVRC12):
    """See `towerpack_dataflow.datasets.ILSVRC12`; BGR."""

    def __init__(
        self, dir: Any, name: Any, meta_dir: Any = None, shuffle: bool | None = None, dir_structure: Any = None
    ) -> None:
        super().__init__(dir, name, meta_dir or get_dataset_path("ilsvrc_metadata"), shuffle, dir_structure)


class TinyImageNet(_BlueFirst, datasets.TinyImageNet):
    """See `towerpack_dataflow.datasets.TinyImageNet`; BGR."""


class Places365Standard(_BlueFirst, datasets.Places365Standard):
    """See `towerpack_dataflow.datasets.Places365Standard`; BGR."""
