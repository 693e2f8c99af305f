"""ONNX' reference evaluator, which is pure NumPy: outputs of single operators, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from rows import Row, first, last, paddings, pair, transposed_paddings

Variables = Mapping[str, np.ndarray]
OPSET = 21
DOUBLE = int(TensorProto.DOUBLE)
IN_FLOAT32 = {"BNReLU", "BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm"}
"""Operators with an epsilon, which is a float32 in ONNX: more digits cannot be compared."""
FUSED_EPSILON = 1.001e-5  # the smallest one that TensorFlow's kernel of batch normalisation takes


def compute(row: Row) -> dict[str, np.ndarray]:
    """The output."""
    return {"output": LAYERS[row.layer](row, row.x, row.variables)}


def evaluate(operator: str, *inputs: np.ndarray | None, outputs: int = 1, **attributes: Any) -> np.ndarray:
    """Evaluates one operator, and returns its first output."""
    names = ["" if value is None else f"in{number}" for number, value in enumerate(inputs)]
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    results = [f"out{number}" for number in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in results]
    graph = helper.make_graph([node], operator, given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0])


def _pads(around: list[tuple[int, int]]) -> list[int]:
    return [before for before, _ in around] + [after for _, after in around]


def _convolve(
    row: Row, x: np.ndarray, kernel: np.ndarray, bias: np.ndarray | None, groups: int = 1
) -> np.ndarray:
    """Convolves channels-first images with a kernel of TensorFlow's form, `[height, width, in, out]`."""
    window = row.window
    axes = len(kernel.shape) - 2
    window = {key: value if key == "padding" else value[:axes] for key, value in window.items()}
    return evaluate(
        "Conv",
        x,
        np.moveaxis(kernel, (-1, -2), (0, 1)),
        bias,
        group=groups,
        strides=list(window["strides"]),
        dilations=list(window["dilations"]),
        pads=_pads(paddings(x.shape[2:], kernel.shape[:-2], window)),
    )


def _conv(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    return last(_convolve(row, first(x), v["W"], v["b"], row.options.get("split", 1)))


def _depthwise(row: Row, x: np.ndarray, kernel: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    rows, columns, channels, times = kernel.shape
    return _convolve(row, x, kernel.reshape(rows, columns, 1, channels * times), bias, groups=channels)


def _separable_conv_2d(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    between = _depthwise(row, first(x), v["depthwise_weights"], None)
    return last(evaluate("Conv", between, np.moveaxis(v["pointwise_weights"], (-1, -2), (0, 1)), v["b"]))


def _conv_2d_transpose(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    kernel, window = v["W"], row.window
    cut, added = transposed_paddings(kernel.shape[:2], window)
    turned = np.moveaxis(kernel, (-1, -2), (0, 1))
    options = {"strides": list(window["strides"]), "pads": _pads(cut), "output_padding": added}
    return last(evaluate("ConvTranspose", first(x), turned, v["b"], **options))


def _pool(operator: str) -> Callable[[Row, np.ndarray, Variables], np.ndarray]:
    def pool(row: Row, x: np.ndarray, _: Variables) -> np.ndarray:
        size, window = pair(row.options["pool_size"]), row.window
        around = paddings(x.shape[1:3], size, window)
        options = {"kernel_shape": list(size), "strides": list(window["strides"]), "pads": _pads(around)}
        return last(evaluate(operator, first(x), **options))

    return pool


def _batch_norm(row: Row, x: np.ndarray, v: Variables, prefix: str = "") -> np.ndarray:
    parts = row.options.get("virtual_batch_size")
    options = {"training_mode": 1, "epsilon": 1e-5 if parts else FUSED_EPSILON, "outputs": 3}
    scale, shift = v[f"{prefix}gamma"], v[f"{prefix}beta"]
    unused = np.zeros_like(scale), np.ones_like(scale)
    divided = np.split(x, len(x) // parts) if parts else [x]
    normal = [
        evaluate("BatchNormalization", first(part), scale, shift, *unused, **options) for part in divided
    ]
    return last(np.concatenate(normal))


def _layer_norm(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    scale, shift = (np.broadcast_to(v[name], x.shape[1:]).copy() for name in ("gamma", "beta"))
    return evaluate("LayerNormalization", x, scale, shift, axis=1, epsilon=1e-5)


def _instance_norm(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    return last(evaluate("InstanceNormalization", first(x), v["gamma"], v["beta"], epsilon=1e-5))


def _group_norm(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    image = first(x) if x.ndim == 4 else x[:, :, None, None]
    options = {"num_groups": row.options["groups"], "epsilon": 1e-5, "stash_type": DOUBLE}
    out = evaluate("GroupNormalization", image, v["gamma"], v["beta"], **options)
    return last(out) if x.ndim == 4 else out[:, :, 0, 0]


def _lstm(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, forget_bias: float = 1.0) -> np.ndarray:
    """An LSTM with the weights of a `BasicLSTMCell`; its gates are input, new, forget, output."""
    units = kernel.shape[1] // 4
    put, new, forget, out = np.split(kernel, 4, 1)
    ours = np.concatenate([put, out, forget, new], 1).T[None]
    put, new, forget, out = np.split(bias, 4)
    biases = np.concatenate([put, out, forget + forget_bias, new, np.zeros(4 * units)])[None]
    return _over_time("LSTM", x, ours, biases, units)


def _gru(x: np.ndarray, v: Variables, prefix: str) -> np.ndarray:
    """A GRU; the order of gates is update, reset, new in ONNX, and reset, update in TensorFlow."""
    units = len(v[f"{prefix}candidate/bias"])
    reset, update = np.split(v[f"{prefix}gates/kernel"], 2, 1)
    ours = np.concatenate([update, reset, v[f"{prefix}candidate/kernel"]], 1).T[None]
    reset, update = np.split(v[f"{prefix}gates/bias"], 2)
    biases = np.concatenate([update, reset, v[f"{prefix}candidate/bias"], np.zeros(3 * units)])[None]
    return _over_time("GRU", x, ours, biases, units)


def _over_time(
    operator: str, x: np.ndarray, kernel: np.ndarray, biases: np.ndarray, units: int
) -> np.ndarray:
    """A recurrent operator over sequences that come batch first; its kernel is that of `[x, h]`."""
    features = x.shape[2]
    outputs = evaluate(
        operator,
        x.swapaxes(0, 1),
        np.ascontiguousarray(kernel[:, :, :features]),
        np.ascontiguousarray(kernel[:, :, features:]),
        biases,
        hidden_size=units,
        outputs=1,
    )
    return outputs[:, 0].swapaxes(0, 1)


BASIC = "basic_lstm_cell/"


def _lstm_layer(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    return _lstm(x, v[f"{BASIC}kernel"], v[f"{BASIC}bias"], row.options.get("forget_bias", 1.0))


def _rnn(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    below = _lstm(x, v[f"multi_rnn_cell/cell_0/{BASIC}kernel"], v[f"multi_rnn_cell/cell_0/{BASIC}bias"])
    return _gru(below, v, "multi_rnn_cell/cell_1/gru_cell/")


def _bidirectional_rnn(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    forward = _lstm(x, v[f"fw/{BASIC}kernel"], v[f"fw/{BASIC}bias"])
    back = _gru(np.ascontiguousarray(x[:, ::-1]), v, "bw/gru_cell/")[:, ::-1]
    return np.concatenate([forward, back], 2)


def _soft_max(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    return evaluate("Softmax", x * v["invtemp"] if "invtemp" in v else x, axis=-1)


def _fully_connected(row: Row, x: np.ndarray, v: Variables) -> np.ndarray:
    return evaluate("Gemm", x.reshape(len(x), -1), v["W"], v["b"])


LAYERS: dict[str, Callable[[Row, np.ndarray, Variables], np.ndarray]] = {
    "AvgPooling": _pool("AveragePool"),
    "BNReLU": lambda row, x, v: evaluate("Relu", _batch_norm(row, x, v, "bn/")),
    "BatchNorm": _batch_norm,
    "BidirectionalRNN": _bidirectional_rnn,
    "ConcatWith": lambda row, x, v: evaluate("Concat", x, axis=-1),
    "Conv1D": _conv,
    "Conv2D": _conv,
    "Conv2DTranspose": _conv_2d_transpose,
    "DepthwiseConv2D": lambda row, x, v: last(_depthwise(row, first(x), v["W"], v["b"])),
    "Embedding": lambda row, x, v: evaluate("Gather", v["W"], x),
    "FullyConnected": _fully_connected,
    "GRU": lambda row, x, v: _gru(x, v, "gru_cell/"),
    "GlobalAvgPooling": lambda row, x, v: evaluate("GlobalAveragePool", first(x))[:, :, 0, 0],
    "GroupNorm": _group_norm,
    "InstanceNorm": _instance_norm,
    "LSTM": _lstm_layer,
    "LayerNorm": _layer_norm,
    "MaxPooling": _pool("MaxPool"),
    "PReLU": lambda row, x, v: evaluate("PRelu", x, v["alpha"].reshape(1)),
    "RNN": _rnn,
    "SeparableConv2D": _separable_conv_2d,
    "SoftMax": _soft_max,
}
