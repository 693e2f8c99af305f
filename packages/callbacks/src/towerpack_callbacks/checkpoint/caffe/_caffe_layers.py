"""The layers of a `.caffemodel`: their names, types, blobs and connections.

Source: `caffe.proto` of Caffe (Y. Jia et al., "Caffe: Convolutional Architecture for Fast Feature Embedding",
2014, arXiv:1408.5093), which defines the field numbers. The V1 format was written until 2015.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import final

import attrs
import numpy as np

from ..._errors import CheckpointError
from ._message_fields import MessageError, MessageFields

__all__ = ["CaffeLayer", "read_layers"]

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
    except MessageError as error:
        raise CheckpointError(f"{path} is not a .caffemodel, or is damaged or truncated: {error}.") from error
    if not any(layer.blobs for layer in layers):
        raise CheckpointError(f"{path} has no layer with weights. Expected a .caffemodel, as Caffe saves it.")
    return layers


def _read_layer(message: MessageFields, form: _Numbering) -> CaffeLayer:
    if form is _V1 and _V0_LAYER in message:
        raise MessageError(
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
        raise MessageError(f"a blob has the shape {shape}")
    if math.prod(shape) != values.size:
        raise MessageError(f"a blob of shape {shape} has {values.size} values")
    return values.astype(np.float32).reshape(shape)
