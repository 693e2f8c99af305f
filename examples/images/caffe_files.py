"""Writes the weights of a plain network as a `.caffemodel` for Caffe's tools.

Source: `caffe.proto` of Caffe; protobuf.dev/programming-guides/encoding.
"""

import numpy as np


def varint(number):
    """Encodes an integer, seven bits in a byte."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def field(number, content):
    """Encodes a field of text or bytes."""
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array):
    """Encodes an array, as its shape and its values."""
    shape = field(1, b"".join(map(varint, array.shape)))
    return field(7, shape) + field(5, array.astype("<f4").tobytes())


def rows_in_caffes_order(matrix, channels):
    """Converts a matrix of channels-last images to Caffe's layout: [inputs, outputs] to [outputs, inputs]."""
    side = int((len(matrix) / channels) ** 0.5)
    images = matrix.reshape(side, side, channels, -1)
    return images.transpose(3, 2, 0, 1).reshape(-1, len(matrix))


def caffe_model(values):
    """Returns the bytes of a model.

    Args:
        values: `W` and `b` of each layer, by name; the layers are in the order of their names.
    """
    encoded, before, channels = [field(1, "network")], "data", 0
    for name in sorted({name.split("/")[0] for name in values}):
        weights, bias = values[f"{name}/W"], values[f"{name}/b"]
        if weights.ndim == 4:
            kind, weights = "Convolution", weights.transpose(3, 2, 0, 1)
        else:
            kind, weights = "InnerProduct", rows_in_caffes_order(weights, channels)
        parts = [field(1, name), field(2, kind), field(3, before), field(4, name)]
        encoded.append(field(100, b"".join([*parts, field(7, blob(weights)), field(7, blob(bias))])))
        before, channels = name, len(np.ravel(bias))
    return b"".join(encoded)
