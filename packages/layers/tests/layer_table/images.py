"""Layers over the height and width of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    AvgPooling,
    Conv2D,
    Conv2DTranspose,
    DepthwiseConv2D,
    FixedUnPooling,
    GlobalAvgPooling,
    ImageSample,
    MaxPooling,
    SeparableConv2D,
    SpatialDropout,
)
from towerpack_layers.testing import LayerCase

from .windows import Arrays, convolve, convolve_depthwise, convolve_transposed, windows

MATRIX = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, 1.0]], "f4")


def conv2d(label: str = "", **window: Any) -> LayerCase:
    def reference(x: np.ndarray, v: Arrays) -> np.ndarray:
        return convolve(x, v["W"], **window) + v["b"]

    options = {"filters": 6, "kernel_size": 3, **window}
    return LayerCase(Conv2D, options, ("W", "b"), label=label, reference=reference)


def transposed(label: str = "", size: Any = 3, **window: Any) -> LayerCase:
    def reference(x: np.ndarray, v: Arrays) -> np.ndarray:
        return convolve_transposed(x, v["W"], **window) + v["b"]

    options = {"filters": 5, "kernel_size": size, **window}
    return LayerCase(Conv2DTranspose, options, ("W", "b"), label=label, reference=reference)


def depthwise(label: str = "", **window: Any) -> LayerCase:
    def reference(x: np.ndarray, v: Arrays) -> np.ndarray:
        return convolve_depthwise(x, v["W"], **window) + v["b"]

    options = {"kernel_size": (3, 2), "depth_multiplier": 2, **window}
    return LayerCase(DepthwiseConv2D, options, ("W", "b"), label=label, reference=reference)


def separable(label: str = "", **window: Any) -> LayerCase:
    def reference(x: np.ndarray, v: Arrays) -> np.ndarray:
        between = convolve_depthwise(x, v["depthwise_weights"], **window)
        return convolve(between, v["pointwise_weights"]) + v["b"]

    options = {"filters": 5, "kernel_size": 3, "depth_multiplier": 2, **window}
    variables = ("depthwise_weights", "pointwise_weights", "b")
    return LayerCase(SeparableConv2D, options, variables, label=label, reference=reference)


def average(label: str = "", size: Any = 2, **window: Any) -> LayerCase:
    def reference(x: np.ndarray, _: Arrays) -> np.ndarray:
        options = {"strides": size, "padding": "valid", **window}
        return np.nanmean(windows(x, size, value=np.nan, **options), (3, 4))

    return LayerCase(AvgPooling, {"pool_size": size, **window}, label=label, reference=reference)


def largest(label: str = "", size: Any = 2, **window: Any) -> LayerCase:
    def reference(x: np.ndarray, _: Arrays) -> np.ndarray:
        options = {"strides": size, "padding": "valid", **window}
        return windows(x, size, value=-np.inf, **options).max((3, 4))

    return LayerCase(MaxPooling, {"pool_size": size, **window}, label=label, reference=reference)


def unpooled(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return np.kron(x, matrix[None, :, :, None])


def with_coordinates(x: Any) -> list[Any]:
    """Images, and coordinates of at least 32 bits, of which some are outside; arrays, or tensors."""
    source = x if x.dtype in (np.float64, tf.float64) else tf.cast(x, tf.float32)
    return [x, 3 * source[..., :2] + 2]


def sampled(x: np.ndarray, _: Arrays) -> np.ndarray:
    images, coordinates = with_coordinates(x)
    last = np.array(images.shape[1:3]) - 1
    coordinates = np.clip(coordinates, 0, last)
    out = np.zeros([*coordinates.shape[:3], images.shape[3]])
    for place in np.ndindex(coordinates.shape[:3]):
        # A pixel counts by its nearness in height times that in width.
        near = [
            np.maximum(0, 1 - np.abs(np.arange(size) - at))
            for size, at in zip(images.shape[1:3], coordinates[place], strict=True)
        ]
        out[place] = np.einsum("hwc,h,w->c", images[place[0]], *near)
    return out


def sampled_or_zero(x: np.ndarray, variables: Arrays) -> np.ndarray:
    _, coordinates = with_coordinates(x)
    inside = (coordinates >= 0) & (coordinates <= np.array(x.shape[1:3]) - 1)
    return sampled(x, variables) * inside.all(-1, keepdims=True)


CASES = [
    average(),
    average("same", 3, strides=2, padding="same"),
    conv2d(),
    conv2d("strides", strides=(2, 1)),
    conv2d("dilation", dilation_rate=2),
    conv2d("split", split=3),
    conv2d("valid", padding="valid"),
    transposed(),
    transposed("strides", strides=2),
    transposed("valid", (2, 4), strides=(3, 2), padding="valid"),
    depthwise(),
    depthwise("strides", strides=2, padding="valid"),
    depthwise("dilation", dilation_rate=2),
    LayerCase(FixedUnPooling, {"shape": 2}, reference=lambda x, _: unpooled(x, np.eye(1, 4).reshape(2, 2))),
    LayerCase(
        FixedUnPooling,
        {"shape": (2, 3), "unpool_mat": MATRIX},
        label="matrix",
        reference=lambda x, _: unpooled(x, MATRIX),
    ),
    LayerCase(GlobalAvgPooling, reference=lambda x, _: x.mean((1, 2))),
    LayerCase(ImageSample, inputs=with_coordinates, reference=sampled),
    LayerCase(
        ImageSample,
        {"border_mode": "constant"},
        inputs=with_coordinates,
        label="constant",
        reference=sampled_or_zero,
    ),
    largest(),
    largest("same", 3, strides=2, padding="same"),
    separable(),
    separable("strides", strides=2),
    LayerCase(SpatialDropout, {"rate": 0.3}),
]
