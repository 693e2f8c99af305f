"""`load_caffe`: the weights of a Caffe model, converted to the names and shapes of this project's layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np

from ..._errors import CheckpointError
from ._caffe_layers import CaffeLayer, read_layers

__all__ = ["load_caffe"]

# Layers with the same channels in the output as in the input, in the same order.
_SAME_CHANNELS = frozenset(
    [
        *("BatchNorm", "Bias", "Dropout", "ELU", "Eltwise", "Flatten", "LRN", "PReLU"),
        *("Pooling", "Power", "ReLU", "Scale", "Sigmoid", "Split", "TanH"),
    ]
)
_KERNELS = ("Convolution", "Deconvolution")


def load_caffe(path: str | Path, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, np.ndarray]:
    """Reads the weights of a Caffe model, without Caffe and without its `.prototxt`.

    A layer `conv1` gives `conv1/W` and `conv1/b`, in the order of axes of `Conv2D` and `FullyConnected`. The
    matrix of an InnerProduct layer behind images has its rows moved from Caffe's order (channels, height,
    width) to (height, width, channels). A BatchNorm layer gives `mean/EMA` and `variance/EMA`, and the Scale
    layer behind it `gamma` and `beta` under the name of the former. Blobs without a counterpart are returned
    unchanged as `LAYER/blob0` and so on. The function reads models of V1 and V2. Caffe's images are BGR.

    Args:
        path: a `.caffemodel`.
        shapes: the input shape (channels, height, width) of InnerProduct layers by name; (features,) if the
            input is already flat. By default, the channels are those of the preceding layers, and height and
            width are assumed to be equal. The shape is required directly behind the data and behind layers
            that move channels.

    Returns:
        Arrays by name, float32.

    Raises:
        CheckpointError: the file cannot be read, is damaged, truncated or not a Caffe model; two layers give
            the same name; or the order of the rows of an InnerProduct layer is unknown or does not match
            `shapes`.

    Example:
        ```python
        SmartInit(load_caffe("vgg16.caffemodel", shapes={"fc6": (512, 7, 7)}))
        ```
    """
    path = Path(path)
    conversion = _Conversion(dict(shapes or {}), str(path))
    variables: dict[str, np.ndarray] = {}
    for layer in read_layers(path):
        for name, value in conversion.convert(layer):
            if name in variables:
                raise CheckpointError(f"{path}: two layers give {name!r}.")
            variables[name] = np.ascontiguousarray(value)
    if conversion.unknown:
        raise CheckpointError(f"shapes={shapes}: {path} has no InnerProduct layer {conversion.unknown[0]!r}.")
    return variables


@final
class _Conversion:
    """Converts layers in the order of the network, so that each layer's inputs are known.

    Args:
        shapes: as in `load_caffe`; emptied layer by layer.
        source: the file, for messages.
    """

    def __init__(self, shapes: dict[str, Sequence[int]], source: str) -> None:
        self._shapes = shapes
        self._source = source
        self._channels: dict[str, int | None] = {}  # by blob; None if unknown
        self._normalised: dict[str, str] = {}  # by blob: the BatchNorm layer of its values

    @property
    def unknown(self) -> list[str]:
        """Names in `shapes` without a layer."""
        return list(self._shapes)

    def convert(self, layer: CaffeLayer) -> Iterator[tuple[str, np.ndarray]]:
        """Yields names and values of the variables of one layer."""
        if layer.blobs:
            scope, values = self._values(layer)
            yield from ((f"{scope}/{name}", value) for name, value in values.items())
        channels = self._channels_of_output(layer)
        for top in layer.tops:
            self._channels[top] = channels
            self._normalised.pop(top, None)
            if layer.kind == "BatchNorm":
                self._normalised[top] = layer.name

    def _values(self, layer: CaffeLayer) -> tuple[str, dict[str, np.ndarray]]:
        """Returns the scope of the variables, and their values by name."""
        weights, *others = layer.blobs
        bias = {"b": others[0].reshape(-1)} if others else {}
        if _has_kernel(layer):
            # [outputs, inputs, …] becomes […, inputs, outputs], and the two swapped if transposed.
            return layer.name, {"W": weights.transpose(*range(2, weights.ndim), 1, 0), **bias}
        if _has_matrix(layer):
            return layer.name, {"W": self._matrix(layer), **bias}
        if layer.kind == "BatchNorm" and len(others) == 2 and others[1].size == 1:
            return layer.name, _statistics(weights, others[0], float(others[1].reshape(())))
        if layer.kind == "Scale":
            scope = self._normalised.get(layer.bottoms[0] if layer.bottoms else "", layer.name)
            return scope, dict(zip(("gamma", "beta"), (blob.reshape(-1) for blob in layer.blobs)))
        return layer.name, {f"blob{index}": blob for index, blob in enumerate(layer.blobs)}

    def _matrix(self, layer: CaffeLayer) -> np.ndarray:
        """Returns the matrix [inputs, outputs] for inputs with the channels last."""
        *_, rows, columns = layer.blobs[0].shape
        weights = layer.blobs[0].reshape(rows, columns)
        matrix, size, units = (weights, rows, columns) if layer.transposed else (weights.T, columns, rows)
        shape = self._shapes.pop(layer.name, None) or self._shape_of_input(layer, size)
        if math.prod(shape) != size or len(shape) not in (1, 3):
            raise CheckpointError(
                f"{self._source}: layer {layer.name!r} has {size} inputs; received the shape {tuple(shape)}. "
                "Give its (channels, height, width), or (features,), in shapes=."
            )
        if len(shape) == 1:
            return matrix
        return matrix.reshape(*shape, units).transpose(1, 2, 0, 3).reshape(size, units)

    def _shape_of_input(self, layer: CaffeLayer, size: int) -> Sequence[int]:
        channels = self._channels.get(layer.bottoms[0]) if layer.bottoms else None
        if channels:
            side = math.isqrt(size // channels)
            if channels * side * side == size:
                return (channels, side, side)
        raise CheckpointError(
            f"{self._source}: the order of the {size} inputs of layer {layer.name!r} is unknown. Give their "
            f"shape: load_caffe(path, shapes={{{layer.name!r}: (channels, height, width)}}), or (features,)."
        )

    def _channels_of_output(self, layer: CaffeLayer) -> int | None:
        if _has_kernel(layer):
            weights, *others = layer.blobs
            # The bias has the number of outputs, since groups divide the kernel of a Deconvolution.
            return others[0].size if others else weights.shape[0 if layer.kind == "Convolution" else 1]
        if _has_matrix(layer):
            *_, rows, columns = layer.blobs[0].shape
            return int(columns if layer.transposed else rows)
        known = [self._channels.get(bottom) for bottom in layer.bottoms]
        if layer.kind == "Concat" and layer.concat_axis == 1:
            return None if None in known else sum(count or 0 for count in known)
        return known[0] if known and layer.kind in _SAME_CHANNELS else None


def _has_kernel(layer: CaffeLayer) -> bool:
    return layer.kind in _KERNELS and bool(layer.blobs) and layer.blobs[0].ndim > 2


def _has_matrix(layer: CaffeLayer) -> bool:
    # V1 writes it with two leading axes of 1.
    if layer.kind != "InnerProduct" or not layer.blobs or layer.blobs[0].ndim < 2:
        return False
    return math.prod(layer.blobs[0].shape[:-2]) == 1


def _statistics(mean: np.ndarray, variance: np.ndarray, weight: float) -> dict[str, np.ndarray]:
    """Returns the moving averages, which Caffe stores as sums with their total weight."""
    factor = np.float32(1 / weight if weight else 0)
    return {"mean/EMA": mean.reshape(-1) * factor, "variance/EMA": variance.reshape(-1) * factor}
