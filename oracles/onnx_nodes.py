"""The cases of ONNX' backend tests that a layer can compute: their inputs, weights and expected outputs.

`python oracles/onnx_nodes.py DIRECTORY` writes them for `compute.py`; `compare.py` compares what it has made.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from rows import last, paddings

MOST = 16.0
Arrays = Mapping[str, np.ndarray]
Node = tuple[dict[str, Any], Arrays]
"""Options of our layer, and its arrays: `input`, `variables/...`."""


class NotOurs(Exception):
    """A case has options that our layer does not have."""


def _window(attributes: Mapping[str, Any], sizes: Sequence[int], taps: Sequence[int]) -> dict[str, Any]:
    """Strides, padding and dilation, where TensorFlow has a name for this padding."""
    if attributes.get("ceil_mode") or attributes.get("storage_order") or len(taps) > 2:
        raise NotOurs
    window = {
        "strides": attributes.get("strides", [1] * len(taps)),
        "dilations": attributes.get("dilations", [1] * len(taps)),
    }
    around = attributes.get("pads", [0] * (2 * len(taps)))
    wanted = list(zip(around[: len(taps)], around[len(taps) :]))
    automatic = attributes.get("auto_pad", b"NOTSET").decode()
    for padding in ("valid", "same"):
        ours = paddings(tuple(sizes), tuple(taps), {**window, "padding": padding})
        even = padding == "same" and all(before == after for before, after in ours)
        if automatic in {"SAME_UPPER", "SAME_LOWER"}:
            found = padding == "same" and (even or automatic == "SAME_UPPER")
        else:
            found = ours == wanted
        if found:
            return {**window, "padding": padding}
    raise NotOurs


def _conv(attributes: Mapping[str, Any], x: np.ndarray, kernel: np.ndarray, *bias: np.ndarray) -> Node:
    window = _window(attributes, x.shape[2:], kernel.shape[2:])
    options = {
        "filters": kernel.shape[0],
        "kernel_size": kernel.shape[2:],
        "strides": window["strides"],
        "padding": window["padding"],
        "dilation_rate": window["dilations"],
        "split": attributes.get("group", 1),
        "use_bias": bool(bias),
    }
    arrays = {"input": last(x), "variables/W": np.moveaxis(kernel, (0, 1), (-1, -2))}
    return options, {**arrays, **({"variables/b": bias[0]} if bias else {})}


def _conv_transpose(attributes: Mapping[str, Any], x: np.ndarray, kernel: np.ndarray) -> Node:
    allowed = {"strides", "kernel_shape", "output_padding", "auto_pad"}
    if kernel.ndim != 4 or set(attributes) - allowed or any(attributes.get("output_padding", [])):
        raise NotOurs
    same = attributes.get("auto_pad", b"").decode() == "SAME_UPPER"
    options = {
        "filters": kernel.shape[1],
        "kernel_size": kernel.shape[2:],
        "strides": attributes.get("strides", [1, 1]),
        "padding": "same" if same else "valid",
        "use_bias": False,
    }
    return options, {"input": last(x), "variables/W": np.moveaxis(kernel, (0, 1), (-1, -2))}


def _pool(attributes: Mapping[str, Any], x: np.ndarray) -> Node:
    size = attributes["kernel_shape"]
    window = _window(attributes, x.shape[2:], size)
    padded = window["padding"] == "same"
    counts = attributes.get("count_include_pad") and padded
    if len(size) != 2 or max(window["dilations"]) > 1 or counts or x.dtype != np.float32:
        raise NotOurs
    options = {"pool_size": size, "strides": window["strides"], "padding": window["padding"]}
    return options, {"input": last(x)}


def _global(attributes: Mapping[str, Any], x: np.ndarray) -> Node:
    return {}, {"input": last(x)}


def _batch_norm(attributes: Mapping[str, Any], x: np.ndarray, *weights: np.ndarray) -> Node:
    if attributes.get("training_mode") and attributes.get("epsilon", 1e-5) < 1.1e-5:
        raise NotOurs  # TensorFlow's kernel takes no epsilon below 1.001e-5
    names = ("gamma", "beta", "mean/EMA", "variance/EMA")
    arrays = {f"variables/{name}": weight for name, weight in zip(names, weights, strict=True)}
    options = {"epsilon": attributes.get("epsilon", 1e-5), "training": bool(attributes.get("training_mode"))}
    return options, {"input": last(x), **arrays}


def _of_examples(**renamed: str) -> Callable[..., Node]:
    def norm(attributes: Mapping[str, Any], x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Node:
        options = {ours: attributes[theirs] for ours, theirs in renamed.items()}
        options["epsilon"] = attributes.get("epsilon", 1e-5)
        return options, {"input": last(x), "variables/gamma": scale, "variables/beta": shift}

    return norm


def _layer_norm(attributes: Mapping[str, Any], x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Node:
    if x.ndim != 2 or attributes.get("axis", -1) not in {1, -1}:
        raise NotOurs  # ours has one scale for each channel
    arrays = {"input": x, "variables/gamma": scale, "variables/beta": shift}
    return {"epsilon": attributes.get("epsilon", 1e-5)}, arrays


def _softmax(attributes: Mapping[str, Any], x: np.ndarray) -> Node:
    if attributes.get("axis", -1) not in {-1, x.ndim - 1}:
        raise NotOurs
    return {}, {"input": x}


def _gemm(attributes: Mapping[str, Any], x: np.ndarray, kernel: np.ndarray, *bias: np.ndarray) -> Node:
    if {"alpha", "beta", "transA"} & set(attributes) or (bias and bias[0].ndim > 1 and len(bias[0]) > 1):
        raise NotOurs
    kernel = kernel.T if attributes.get("transB") else kernel
    arrays = {"input": x, "variables/W": kernel}
    if bias:
        arrays["variables/b"] = np.broadcast_to(bias[0].reshape(-1), kernel.shape[1:]).copy()
    return {"units": kernel.shape[1], "use_bias": bool(bias)}, arrays


def _recurrent(attributes: Mapping[str, Any], x: np.ndarray, *weights: np.ndarray) -> tuple[Any, ...]:
    """Inputs of both recurrent layers: units, batch-major input, kernels `[in + units, gates]`, biases."""
    if attributes.get("direction", b"forward") != b"forward" or len(weights) > 3:
        raise NotOurs
    units = attributes["hidden_size"]
    x = x if attributes.get("layout") else x.swapaxes(0, 1)
    kernel = np.concatenate([weights[0][0], weights[1][0]], 1).T
    gates = kernel.shape[1] // units
    bias = weights[2][0].reshape(2, -1) if len(weights) > 2 else np.zeros([2, kernel.shape[1]], np.float32)
    return units, x, np.split(kernel, gates, 1), np.split(bias, gates, 1)


def _lstm(attributes: Mapping[str, Any], *inputs: np.ndarray) -> Node:
    units, x, (put, out, forget, new), biases = _recurrent(attributes, *inputs)
    order = [biases[0], biases[3], biases[2], biases[1]]
    arrays = {
        "input": x,
        "variables/basic_lstm_cell/kernel": np.concatenate([put, new, forget, out], 1),
        "variables/basic_lstm_cell/bias": np.concatenate(order, 1).sum(0),
    }
    return {"units": units, "forget_bias": 0.0}, arrays


def _gru(attributes: Mapping[str, Any], *inputs: np.ndarray) -> Node:
    units, x, (update, reset, new), biases = _recurrent(attributes, *inputs)
    if attributes.get("linear_before_reset"):
        raise NotOurs
    arrays = {
        "input": x,
        "variables/gru_cell/gates/kernel": np.concatenate([reset, update], 1),
        "variables/gru_cell/gates/bias": np.concatenate([biases[1], biases[0]], 1).sum(0),
        "variables/gru_cell/candidate/kernel": new,
        "variables/gru_cell/candidate/bias": biases[2].sum(0),
    }
    return {"units": units}, arrays


# By operator: our layer, how its arguments and arrays are made, and whether both have channels at the front.
READERS: dict[str, tuple[str, Callable[..., Node], bool]] = {
    "AveragePool": ("AvgPooling", _pool, True),
    "BatchNormalization": ("BatchNorm", _batch_norm, True),
    "Conv": ("Conv2D", _conv, True),
    "ConvTranspose": ("Conv2DTranspose", _conv_transpose, True),
    "GRU": ("GRU", _gru, False),
    "Gemm": ("FullyConnected", _gemm, False),
    "GlobalAveragePool": ("GlobalAvgPooling", _global, True),
    "GroupNormalization": ("GroupNorm", _of_examples(groups="num_groups"), True),
    "InstanceNormalization": ("InstanceNorm", _of_examples(), True),
    "LSTM": ("LSTM", _lstm, False),
    "LayerNormalization": ("LayerNorm", _layer_norm, False),
    "MaxPool": ("MaxPooling", _pool, True),
    "Softmax": ("SoftMax", _softmax, False),
}


def write(directory: Path) -> None:
    """Writes the cases that a layer of ours can compute."""
    written = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the other operators' cases overflow on purpose
        cases = collect_testcases(None)
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in READERS:
            continue
        layer, read, channels_first = READERS[nodes[0].op_type]
        attributes = {item.name: helper.get_attribute_value(item) for item in nodes[0].attribute}
        inputs, outputs = case.data_sets[0]
        expected = _expected(nodes[0], attributes, outputs)
        meta = {"name": case.name, "layer": layer, "is_training": bool(attributes.get("training_mode"))}
        try:
            options, arrays = read(attributes, *inputs)
        except NotOurs:
            _write(directory, written, {**meta, "skipped": True}, {})
        else:
            expected = last(expected) if channels_first and expected.ndim > 2 else expected
            expected = expected.reshape(expected.shape[0], -1) if layer == "GlobalAvgPooling" else expected
            _write(directory, written, {**meta, "options": options}, {**arrays, "expected": expected})
        written += 1


def _expected(node: Any, attributes: Mapping[str, Any], outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The output that our layer has: of a recurrent one, the last state alone may be among the outputs."""
    value = outputs[0]
    if node.op_type not in {"LSTM", "GRU"}:
        return value
    if node.output[0]:  # time, direction, batch, units; with layout 1, batch, time, direction, units
        return value[:, :, 0] if attributes.get("layout") else value[:, 0].swapaxes(0, 1)
    return value[:, None, 0] if attributes.get("layout") else value[0][:, None]


def _write(directory: Path, number: int, meta: Mapping[str, Any], arrays: Arrays) -> None:
    kind = "skipped" if "skipped" in meta else "node"
    np.savez(directory / f"{kind}{number:03}.npz", meta=json.dumps(meta, default=list), **arrays)


def compare(directory: Path) -> tuple[list[str], list[str]]:
    """A table of the cases in Markdown, and the failures."""
    errors: dict[str, list[float]] = defaultdict(list)
    skipped: dict[str, int] = defaultdict(int)
    failures = []
    for path in sorted(directory.glob("skipped*.npz")):
        with np.load(path) as file:
            skipped[json.loads(str(file["meta"]))["layer"]] += 1
    for path in sorted(directory.glob("node*.npz")):
        with np.load(path) as file:
            meta, received, wanted = json.loads(str(file["meta"])), file["output"], file["expected"]
        # A case with only the last step is compared with the last step.
        received = received[:, -wanted.shape[1] :] if meta["layer"] in {"LSTM", "GRU"} else received
        if received.shape != wanted.shape:
            failures.append(
                f"{meta['name']}: {meta['layer']} gives {received.shape}, expected {wanted.shape}"
            )
            continue
        error = np.abs(received.astype(np.float64) - wanted).max() / (np.abs(wanted).max() * 2.0**-23)
        errors[meta["layer"]].append(float(error))
        if not error <= MOST:
            failures.append(f"{meta['name']}: {meta['layer']} is off by {error:.3g} ulp, at most {MOST}")
    lines = ["| layer | ONNX' cases | of these not ours | float32 output |", "| --- | ---: | ---: | ---: |"]
    for layer in sorted(errors | skipped):
        found = errors.get(layer, [])
        most = f"{max(found):.2g}" if found else ""
        lines.append(f"| `{layer}` | {len(found) + skipped[layer]} | {skipped[layer]} | {most} |")
    unused = sorted({layer for layer, *_ in READERS.values()} - errors.keys())
    failures += [f"{layer}: no case of ONNX is compared" for layer in unused]
    return lines, failures


if __name__ == "__main__":
    write(Path(sys.argv[1]))
