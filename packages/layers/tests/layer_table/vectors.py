"""Layers that go by the last axis, or element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import ConcatWith, Conv1D, Dropout, Embedding, FullyConnected, Maxout, PReLU, SoftMax
from towerpack_layers.testing import LayerCase

from .windows import Arrays, convolve


def conv1d(label: str = "", **window: Any) -> LayerCase:
    def reference(x: np.ndarray, v: Arrays) -> np.ndarray:
        over_width = {key: (1, value) if key != "padding" else value for key, value in window.items()}
        return convolve(x[:, None], v["W"][None], **over_width)[:, 0] + v["b"]

    options = {"filters": 5, "kernel_size": 3, **window}
    return LayerCase(Conv1D, options, ("W", "b"), (4, 9, 3), label=label, reference=reference)


def fully_connected(x: np.ndarray, v: Arrays) -> np.ndarray:
    return x.reshape(len(x), v["W"].shape[0]) @ v["W"] + v["b"]


def softmax(x: np.ndarray, v: Arrays) -> np.ndarray:
    powers = np.exp(x * v.get("invtemp", 1.0))
    return powers / powers.sum(-1, keepdims=True)


CASES = [
    # Other tensors have the batch of the input, which the table does not know.
    LayerCase(ConcatWith, {"tensor": [], "dim": 3}, reference=lambda x, _: x),
    conv1d(),
    conv1d("strides", strides=2, padding="valid"),
    conv1d("dilation", dilation_rate=2),
    LayerCase(Dropout, {"rate": 0.3}),
    LayerCase(
        Embedding,
        {"vocabulary_size": 7, "units": 5},
        ("W",),
        (4, 6),
        tf.int32,
        reference=lambda x, v: v["W"][x],
    ),
    LayerCase(FullyConnected, {"units": 5}, ("W", "b"), reference=fully_connected),
    LayerCase(
        Maxout,
        {"num_unit": 3},
        shape=(4, 6, 9),
        reference=lambda x, _: x.reshape(*x.shape[:-1], 3, 3).max(-1),
    ),
    LayerCase(PReLU, {}, ("alpha",), reference=lambda x, v: np.where(x > 0, x, v["alpha"] * x)),
    LayerCase(SoftMax, reference=softmax),
    LayerCase(
        SoftMax,
        {"use_temperature": True, "temperature_init": 2.0},
        ("invtemp",),
        label="temperature",
        reference=softmax,
    ),
]
