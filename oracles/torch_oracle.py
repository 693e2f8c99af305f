"""PyTorch's layers in float64, without oneDNN: outputs, and gradients by the input and all variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rows import Row, paddings, pair, transposed_paddings

Tensor = torch.Tensor
Variables = Mapping[str, Tensor]
IN_FLOAT32: set[str] = set()
FUSED_EPSILON = 1.001e-5  # the smallest one that TensorFlow's kernel of batch normalisation takes


def compute(row: Row) -> dict[str, np.ndarray]:
    """The output, and the gradient of its sum with the row's weights."""
    x = torch.tensor(row.x, requires_grad=row.x.dtype.kind == "f")
    variables = {name: torch.tensor(value, requires_grad=True) for name, value in row.variables.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Intel's GPUs
        torch.backends.mkldnn.set_flags(False)
    output = LAYERS[row.layer](row, x, variables)
    weight = torch.tensor(next(iter(row.results.values()))["weight"], dtype=torch.float64)
    targets = {"input": x, **variables} if x.requires_grad else variables
    if output.requires_grad:
        (output * weight).sum().backward()
    found = {
        f"gradient/{name}": target.grad.numpy() for name, target in targets.items() if target.grad is not None
    }
    return {"output": output.detach().numpy(), **found}


def _first(x: Tensor) -> Tensor:
    return x.movedim(-1, 1)


def _last(x: Tensor) -> Tensor:
    return x.movedim(1, -1)


def _pad(x: Tensor, row: Row, taps: tuple[int, ...], value: float = 0.0) -> Tensor:
    around = paddings(tuple(x.shape[2:]), taps, row.window)
    return F.pad(x, [size for before, after in reversed(around) for size in (before, after)], value=value)


def _convolve(row: Row, x: Tensor, kernel: Tensor, bias: Tensor | None, groups: int = 1) -> Tensor:
    """Convolves channels-first images with a kernel of TensorFlow's form, `[height, width, in, out]`."""
    window = row.window
    taps = tuple(kernel.shape[:2])
    padded = _pad(x, row, taps)
    turned = kernel.permute(3, 2, 0, 1)
    return F.conv2d(padded, turned, bias, window["strides"], 0, window["dilations"], groups)


def _conv_2d(row: Row, x: Tensor, v: Variables) -> Tensor:
    return _last(_convolve(row, _first(x), v["W"], v["b"], row.options.get("split", 1)))


def _conv_1d(row: Row, x: Tensor, v: Variables) -> Tensor:
    window = {key: value[:1] if key != "padding" else value for key, value in row.window.items()}
    around = paddings((x.shape[1],), (v["W"].shape[0],), window)
    padded = F.pad(_first(x), list(around[0]))
    turned = v["W"].permute(2, 1, 0)
    return _last(F.conv1d(padded, turned, v["b"], window["strides"], 0, window["dilations"]))


def _depthwise(row: Row, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    rows, columns, channels, times = kernel.shape
    flat = kernel.reshape(rows, columns, 1, channels * times)
    return _convolve(row, x, flat, bias, groups=channels)


def _depthwise_conv_2d(row: Row, x: Tensor, v: Variables) -> Tensor:
    return _last(_depthwise(row, _first(x), v["W"], v["b"]))


def _separable_conv_2d(row: Row, x: Tensor, v: Variables) -> Tensor:
    between = _depthwise(row, _first(x), v["depthwise_weights"], None)
    return _last(F.conv2d(between, v["pointwise_weights"].permute(3, 2, 0, 1), v["b"]))


def _conv_2d_transpose(row: Row, x: Tensor, v: Variables) -> Tensor:
    kernel, window = v["W"], row.window
    cut, added = transposed_paddings(tuple(kernel.shape[:2]), window)
    # The padding lies at the end, so it is added before the front is cut off.
    out = F.conv_transpose2d(_first(x), kernel.permute(3, 2, 0, 1), None, window["strides"], 0, 0)
    out = F.pad(out, [0, added[1], 0, added[0]])
    (top, bottom), (left, right) = cut
    out = out[:, :, top : out.shape[2] - bottom, left : out.shape[3] - right]
    return _last(out + v["b"][:, None, None])


def _avg_pooling(row: Row, x: Tensor, _: Variables) -> Tensor:
    size, steps = pair(row.options["pool_size"]), row.window["strides"]
    means = F.avg_pool2d(_pad(_first(x), row, size), size, steps)
    inside = F.avg_pool2d(_pad(torch.ones_like(_first(x)), row, size), size, steps)
    return _last(means / inside)


def _max_pooling(row: Row, x: Tensor, _: Variables) -> Tensor:
    size = pair(row.options["pool_size"])
    return _last(F.max_pool2d(_pad(_first(x), row, size, -torch.inf), size, row.window["strides"]))


def _batch_norm(row: Row, x: Tensor, v: Variables, prefix: str = "") -> Tensor:
    parts = row.options.get("virtual_batch_size")
    epsilon = 1e-5 if parts else FUSED_EPSILON
    normal = [
        F.batch_norm(_first(part), None, None, v[f"{prefix}gamma"], v[f"{prefix}beta"], True, eps=epsilon)
        for part in torch.split(x, parts or len(x))
    ]
    return _last(torch.cat(normal))


def _layer_norm(row: Row, x: Tensor, v: Variables) -> Tensor:
    return F.layer_norm(x, x.shape[1:], eps=1e-5) * v["gamma"] + v["beta"]


def _instance_norm(row: Row, x: Tensor, v: Variables) -> Tensor:
    return _last(F.instance_norm(_first(x), weight=v["gamma"], bias=v["beta"], eps=1e-5))


def _group_norm(row: Row, x: Tensor, v: Variables) -> Tensor:
    return _last(F.group_norm(_first(x), row.options["groups"], v["gamma"], v["beta"], 1e-5))


def _lstm(x: Tensor, kernel: Tensor, bias: Tensor, forget_bias: float = 1.0) -> Tensor:
    """An LSTM with the weights of a `BasicLSTMCell`; its gates are input, new, forget, output."""
    features, units = x.shape[2], kernel.shape[1] // 4
    put, new, forget, out = torch.split(kernel, units, 1)
    ours = torch.cat([put, forget, new, out], 1).T
    put, new, forget, out = torch.split(bias, units)
    biases = torch.cat([put, forget + forget_bias, new, out])
    zeros = torch.zeros(1, len(x), units, dtype=x.dtype)
    weights = [
        ours[:, :features].contiguous(),
        ours[:, features:].contiguous(),
        biases,
        torch.zeros_like(biases),
    ]
    outputs, *_ = torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, True, False, True)
    return outputs


def _gru(x: Tensor, v: Variables, prefix: str) -> Tensor:
    """A GRU of PyTorch's ops: `torch.nn.GRU` multiplies the state by the kernel before it resets it."""
    h = torch.zeros(len(x), v[f"{prefix}candidate/bias"].shape[0], dtype=x.dtype)
    outputs = []
    for step in x.unbind(1):
        gates = F.linear(torch.cat([step, h], 1), v[f"{prefix}gates/kernel"].T, v[f"{prefix}gates/bias"])
        reset, update = torch.sigmoid(gates).chunk(2, 1)
        joined = torch.cat([step, reset * h], 1)
        new = F.linear(joined, v[f"{prefix}candidate/kernel"].T, v[f"{prefix}candidate/bias"])
        h = update * h + (1 - update) * torch.tanh(new)
        outputs.append(h)
    return torch.stack(outputs, 1)


BASIC = "basic_lstm_cell/"


def _lstm_layer(row: Row, x: Tensor, v: Variables) -> Tensor:
    return _lstm(x, v[f"{BASIC}kernel"], v[f"{BASIC}bias"], row.options.get("forget_bias", 1.0))


def _rnn(row: Row, x: Tensor, v: Variables) -> Tensor:
    below = _lstm(x, v[f"multi_rnn_cell/cell_0/{BASIC}kernel"], v[f"multi_rnn_cell/cell_0/{BASIC}bias"])
    return _gru(below, v, "multi_rnn_cell/cell_1/gru_cell/")


def _bidirectional_rnn(row: Row, x: Tensor, v: Variables) -> Tensor:
    forward = _lstm(x, v[f"fw/{BASIC}kernel"], v[f"fw/{BASIC}bias"])
    return torch.cat([forward, _gru(x.flip(1), v, "bw/gru_cell/").flip(1)], 2)


def _fixed_unpooling(row: Row, x: Tensor, _: Variables) -> Tensor:
    shape = pair(row.options["shape"])
    corner = np.eye(1, shape[0] * shape[1]).reshape(shape)
    matrix = torch.tensor(np.asarray(row.options.get("unpool_mat", corner), np.float64))
    return torch.kron(x, matrix[None, :, :, None])


def _image_sample(row: Row, x: Tensor, _: Variables) -> Tensor:
    """With the coordinates that the row of the table makes of its input."""
    at = 3 * x[..., :2] + 2
    sizes = torch.tensor(x.shape[1:3], dtype=x.dtype) - 1
    grid = (2 * at / sizes - 1).flip(-1)
    out = _last(F.grid_sample(_first(x), grid, "bilinear", "border", align_corners=True))
    if row.options.get("border_mode") == "constant":
        out = out * ((at >= 0) & (at <= sizes)).all(-1, keepdim=True)
    return out


def _soft_max(row: Row, x: Tensor, v: Variables) -> Tensor:
    return torch.softmax(x * v["invtemp"] if "invtemp" in v else x, -1)


def _maxout(row: Row, x: Tensor, _: Variables) -> Tensor:
    return x.unflatten(-1, (x.shape[-1] // row.options["num_unit"], -1)).amax(-1)


LAYERS: dict[str, Callable[[Row, Any, Variables], Tensor]] = {
    "AvgPooling": _avg_pooling,
    "BNReLU": lambda row, x, v: torch.relu(_batch_norm(row, x, v, "bn/")),
    "BatchNorm": _batch_norm,
    "BidirectionalRNN": _bidirectional_rnn,
    "ConcatWith": lambda row, x, v: torch.cat([x], -1),
    "Conv1D": _conv_1d,
    "Conv2D": _conv_2d,
    "Conv2DTranspose": _conv_2d_transpose,
    "DepthwiseConv2D": _depthwise_conv_2d,
    "Embedding": lambda row, x, v: F.embedding(x, v["W"]),
    "FixedUnPooling": _fixed_unpooling,
    "FullyConnected": lambda row, x, v: F.linear(x.flatten(1), v["W"].T, v["b"]),
    "GRU": lambda row, x, v: _gru(x, v, "gru_cell/"),
    "GlobalAvgPooling": lambda row, x, v: F.adaptive_avg_pool2d(_first(x), 1).flatten(1),
    "GroupNorm": _group_norm,
    "ImageSample": _image_sample,
    "InstanceNorm": _instance_norm,
    "LSTM": _lstm_layer,
    "LayerNorm": _layer_norm,
    "MaxPooling": _max_pooling,
    "Maxout": _maxout,
    "PReLU": lambda row, x, v: F.prelu(x, v["alpha"].reshape(1)),
    "RNN": _rnn,
    "SeparableConv2D": _separable_conv_2d,
    "SoftMax": _soft_max,
}
