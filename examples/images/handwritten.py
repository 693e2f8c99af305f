"""Handwritten digits: those that come with scikit-learn, or MNIST's."""

from towerpack_dataflow.datasets import Digits, Mnist


def read_digits(folder, split, shuffle=None):
    """Returns a flow of images, float32 from 0 to 1, and their labels.

    Args:
        folder: where the files of MNIST lie or come; scikit-learn's digits if None.
        split: "train" or "test".
        shuffle: whether each epoch has an order of its own; if not given, the training set does.
    """
    return Digits(split, shuffle) if folder is None else Mnist(split, shuffle, dir=folder)
