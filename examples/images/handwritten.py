"""Handwritten digits of scikit-learn or MNIST."""

from towerpack_dataflow.datasets import Digits, Mnist


def read_digits(folder, split, shuffle=None):
    """Returns a flow of images, float32 from 0 to 1, and their labels.

    Args:
        folder: the folder of MNIST, downloaded if missing; None for scikit-learn's digits.
        split: "train" or "test".
        shuffle: whether to shuffle each epoch; by default, only the training set is shuffled.
    """
    return Digits(split, shuffle) if folder is None else Mnist(split, shuffle, dir=folder)
