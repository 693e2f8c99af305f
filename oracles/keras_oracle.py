"""Keras' layers on its NumPy backend, where ONNX and PyTorch lack the layer as a whole.

They compute in float32: on all backends but TensorFlow's, Keras takes float32 where it is given float64.
What is published is then the error of both together. Convolutions of this backend are those of JAX.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ["KERAS_BACKEND"] = "numpy"

import keras
import numpy as np
from rows import Row, pair

Variables = Mapping[str, np.ndarray]


def compute(row: Row) -> dict[str, np.ndarray]:
    """The output."""
    variables = {name: value.astype(np.float32) for name, value in row.variables.items()}
    return {"output": LAYERS[row.layer](row, row.x.astype(np.float32), variables)}


def _run(layer: Any, x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    layer.build(x.shape)
    layer.set_weights(list(weights))
    return np.asarray(layer(x))


def _window(row: Row) -> dict[str, Any]:
    """Arguments of a Keras layer; depthwise ones support only equal strides."""
    window = row.window
    return {
        "strides": window["strides"],
        "padding": window["padding"],
        "dilation_rate": window["dilations"],
        "dtype": "float32",
    }


def _conv_2d_transpose(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    layer = keras.layers.Conv2DTranspose(
        row.options["filters"], pair(row.options["kernel_size"]), **_window(row)
    )
    return _run(layer, x, v["W"], v["b"])


def _depthwise_conv_2d(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    times = row.options.get("depth_multiplier", 1)
    layer = keras.layers.DepthwiseConv2D(
        pair(row.options["kernel_size"]), depth_multiplier=times, **_window(row)
    )
    return _run(layer, x, v["W"], v["b"])


def _separable_conv_2d(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    times = row.options.get("depth_multiplier", 1)
    layer = keras.layers.SeparableConv2D(
        row.options["filters"], pair(row.options["kernel_size"]), depth_multiplier=times, **_window(row)
    )
    return _run(layer, x, v["depthwise_weights"], v["pointwise_weights"], v["b"])


def _gru(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    """A GRU; the order of gates is update, reset, new in Keras, and reset, update in `GRUCell`."""
    units, features = row.options["units"], x.shape[2]
    layer = keras.layers.GRU(units, return_sequences=True, reset_after=False, dtype="float32")
    reset, update = np.split(v["gru_cell/gates/kernel"], 2, 1)
    kernel = np.concatenate([update, reset, v["gru_cell/candidate/kernel"]], 1)
    reset, update = np.split(v["gru_cell/gates/bias"], 2)
    bias = np.concatenate([update, reset, v["gru_cell/candidate/bias"]])
    return _run(layer, x, kernel[:features], kernel[features:], bias)


def _lstm(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    """An LSTM; Keras orders the gates as input, forget, new, output."""
    units, features = row.options["units"], x.shape[2]
    layer = keras.layers.LSTM(units, return_sequences=True, unit_forget_bias=False, dtype="float32")
    put, new, forget, out = np.split(v["basic_lstm_cell/kernel"], 4, 1)
    kernel = np.concatenate([put, forget, new, out], 1)
    put, new, forget, out = np.split(v["basic_lstm_cell/bias"], 4)
    bias = np.concatenate([put, forget + row.options.get("forget_bias", 1.0), new, out])
    return _run(layer, x, kernel[:features], kernel[features:], bias)


LAYERS: dict[str, Callable[[Row, np.ndarray, Variables], np.ndarray]] = {
    "Conv2DTranspose": _conv_2d_transpose,
    "DepthwiseConv2D": _depthwise_conv_2d,
    "GRU": _gru,
    "LSTM": _lstm,
    "SeparableConv2D": _separable_conv_2d,
}
IN_FLOAT32 = set(LAYERS)
