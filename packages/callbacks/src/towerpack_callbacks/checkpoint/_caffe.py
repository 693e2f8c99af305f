"""Reads the weights of Caffe models without Caffe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import attrs
import numpy as np

from .._errors import CheckpointError
from ..writing._protobuf_fields import ProtobufError, read_fields, read_varint

__all__ = ["CaffeLayer", "MessageFields", "load_caffe", "read_layers"]


_Content = int | memoryview


@final
class MessageFields:
    """Fields by number, each a list, since any field may be repeated.

    Args:
        message: the bytes of the message, without its length.

    Raises:
        ProtobufError: the bytes end within a field, or a wire type is invalid.
    """

    def __init__(self, message: memoryview) -> None:
        self._fields: dict[int, list[_Content]] = {}
        for number, found in read_fields(message, (0, len(message))):
            content = found if isinstance(found, int) else message[slice(*found)]
            self._fields.setdefault(number, []).append(content)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def messages(self, number: int) -> Iterator[MessageFields]:
        """Yields the messages of a field."""
        return (MessageFields(content) for content in self._views(number))

    def number(self, number: int, default: int) -> int:
        """Returns an integer; the last occurrence counts."""
        content = self._fields.get(number, [default])[-1]
        if not isinstance(content, int):
            raise ProtobufError(f"field {number} is not an integer")
        return content

    def numbers(self, number: int) -> list[int]:
        """Returns the integers of a field, packed or not."""
        found: list[int] = []
        for content in self._fields.get(number, []):
            if isinstance(content, int):
                found.append(content)
                continue
            place = 0
            while place < len(content):
                value, place = read_varint(content, place, len(content))
                found.append(value)
        return found

    def text(self, number: int) -> str:
        """Returns the text of a field, or an empty string."""
        return (self.texts(number) or [""])[-1]

    def texts(self, number: int) -> list[str]:
        """Returns the texts of a field."""
        try:
            return [str(content, "utf-8") for content in self._views(number)]
        except UnicodeDecodeError as error:
            raise ProtobufError(f"field {number} is not text: {error}") from error

    def floats(self, number: int, dtype: str) -> np.ndarray:
        """Returns the numbers of a field, packed or not, of "<f4" or "<f8"."""
        content = b"".join(self._views(number))
        if len(content) % np.dtype(dtype).itemsize:
            raise ProtobufError(
                f"field {number} has {len(content)} bytes, which is not a whole number of elements"
            )
        return np.frombuffer(content, dtype)

    def _views(self, number: int) -> list[memoryview]:
        found = self._fields.get(number, [])
        views = [content for content in found if isinstance(content, memoryview)]
        if len(views) < len(found):
            raise ProtobufError(f"field {number} is an integer; expected bytes")
        return views


_V1_TYPES = {
    3: "Concat",
    4: "Convolution",
    6: "Dropout",
    8: "Flatten",
    14: "InnerProduct",
    15: "LRN",
    17: "Pooling",
    18: "ReLU",
    19: "Sigmoid",
    22: "Split",
    23: "TanH",
    25: "Eltwise",
    39: "Deconvolution",
}
_BLOB_SIZES, _BLOB_FLOATS, _BLOB_SHAPE, _BLOB_DOUBLES, _SHAPE_SIZES = (1, 2, 3, 4), 5, 7, 8, 1
_V0_LAYER = 1
_MOST_AXES, _LONGEST_AXIS = 32, 2**31 - 1  # of a blob, in Caffe


@final
@attrs.frozen
class _Numbering:
    """The field numbers of a layer and of its relevant submessages."""

    layers: int
    name: int
    kind: int
    bottoms: int
    tops: int
    blobs: int
    concat: int
    inner_product: int


_V2 = _Numbering(100, name=1, kind=2, bottoms=3, tops=4, blobs=7, concat=104, inner_product=117)
_V1 = _Numbering(2, name=4, kind=5, bottoms=2, tops=3, blobs=6, concat=9, inner_product=17)


@final
@attrs.frozen
class CaffeLayer:
    """One layer of a network.

    Attributes:
        name: its name.
        kind: its type in the spelling of V2, such as "InnerProduct".
        bottoms: names of the input blobs.
        tops: names of the output blobs; equal to the input names for an in-place layer.
        blobs: its weights, in Caffe's order of axes.
        concat_axis: the axis of a Concat layer.
        transposed: whether the weights of an InnerProduct layer are [inputs, outputs].
    """

    name: str
    kind: str
    bottoms: list[str]
    tops: list[str]
    blobs: list[np.ndarray]
    concat_axis: int
    transposed: bool


def read_layers(path: Path) -> list[CaffeLayer]:
    """Reads all layers of a network, in their order.

    A file truncated between two layers is a valid file of a smaller network; the error appears only when the
    missing values are restored.

    Raises:
        CheckpointError: the file cannot be read, is damaged or truncated, or is not a `.caffemodel`.
    """
    try:
        network = MessageFields(memoryview(path.read_bytes()))
        layers = [_read_layer(each, form) for form in (_V1, _V2) for each in network.messages(form.layers)]
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    except ProtobufError as error:
        raise CheckpointError(f"{path} is not a .caffemodel, or is damaged or truncated: {error}.") from error
    if not any(layer.blobs for layer in layers):
        raise CheckpointError(f"{path} has no layer with weights. Expected a .caffemodel, as Caffe saves it.")
    return layers


def _read_layer(message: MessageFields, form: _Numbering) -> CaffeLayer:
    if form is _V1 and _V0_LAYER in message:
        raise ProtobufError(
            "its layers have the V0 format from before 2014; upgrade the file with Caffe's tools"
        )
    kind = message.text(form.kind) if form is _V2 else _V1_TYPES.get(message.number(form.kind, 0), "")
    return CaffeLayer(
        name=message.text(form.name),
        kind=kind,
        bottoms=message.texts(form.bottoms),
        tops=message.texts(form.tops),
        blobs=[_read_blob(each) for each in message.messages(form.blobs)],
        concat_axis=next((each.number(2, 1) for each in message.messages(form.concat)), 1),
        transposed=any(each.number(6, 0) for each in message.messages(form.inner_product)),
    )


def _read_blob(message: MessageFields) -> np.ndarray:
    """Returns a float32 array of the blob's shape; V1 blobs always have four axes."""
    field, dtype = (_BLOB_DOUBLES, "<f8") if _BLOB_DOUBLES in message else (_BLOB_FLOATS, "<f4")
    values = message.floats(field, dtype)
    shape = [message.number(axis, 1) for axis in _BLOB_SIZES]
    if _BLOB_SHAPE in message:
        shape = next(iter(message.messages(_BLOB_SHAPE))).numbers(_SHAPE_SIZES)
    if len(shape) > _MOST_AXES or max(shape, default=1) > _LONGEST_AXIS:
        raise ProtobufError(f"a blob has the shape {shape}")
    if math.prod(shape) != values.size:
        raise ProtobufError(f"a blob of shape {shape} has {values.size} values")
    return values.astype(np.float32).reshape(shape)


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
