"""The handwritten digits of scikit-learn in the format of generators: 8 x 8 pixels from -1 to 1."""

from typing import Literal

import numpy as np

from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_dataflow.datasets import Digits

CLASSES, SIZE = 10, 8


def digit_arrays(split: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pictures of "train" or "test", float32 of shape [n, 8, 8, 1], and their labels, int32."""
    flow = Digits(split, shuffle=False)
    flow.seed(0)
    images, labels = zip(*flow)
    return np.stack(images)[..., None] * 2 - 1, np.array(labels, np.int32)


def digit_batches(batch: int, with_labels: bool = False) -> BatchData:
    """Returns batches of the training pictures in a different order in each epoch."""
    images, labels = digit_arrays("train")
    return BatchData(DataFromArrays([images, labels] if with_labels else [images], shuffle=True), batch)
