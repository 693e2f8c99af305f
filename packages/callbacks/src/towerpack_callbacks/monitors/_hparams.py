"""Encodes hyper-parameters for TensorBoard's HParams tab.

The messages are those of `tensorboard/plugins/hparams/plugin_data.proto`. They are encoded by hand, since
TensorFlow comes without TensorBoard and a few fields do not justify a dependency.
"""

from __future__ import annotations

import numbers
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

__all__ = ["HParams", "check_hparams", "session_start_summary"]

HParams: TypeAlias = Mapping[str, bool | int | float | str]

_START_TAG = "_hparams_/session_start_info"


def check_hparams(who: str, hparams: HParams | None) -> dict[str, bool | int | float | str]:
    """Checks the hyper-parameters of a monitor and returns a copy.

    Raises:
        TypeError: `hparams` is not a mapping from names to numbers, strings and truth values.
    """
    if hparams is None:
        return {}
    if not isinstance(hparams, Mapping):
        raise TypeError(f"{who}(hparams={hparams!r}): expected a dict of names and values.")
    for name, value in hparams.items():
        if not isinstance(name, str) or not isinstance(value, (bool, str, numbers.Real)):
            raise TypeError(
                f"{who}(hparams=...): {name!r} is {value!r} of type {type(value).__name__}; expected a "
                "string, a number or a truth value. Write others as strings."
            )
    return dict(hparams)


def session_start_summary(hparams: HParams, start_time: float) -> tf.Summary:
    """Makes the summary of a run's hyper-parameters.

    Args:
        hparams: names and values.
        start_time: the start of the run, in seconds since 1970.
    """
    start = b"".join(_message(1, _text(1, name) + _message(2, _value(v))) for name, v in hparams.items())
    start += _number(5, start_time)
    content = _message(3, start)
    metadata = tf.SummaryMetadata(
        plugin_data=tf.SummaryMetadata.PluginData(plugin_name="hparams", content=content)
    )
    # The tab needs a tensor; its value does not matter.
    value = tf.Summary.Value(tag=_START_TAG, metadata=metadata, tensor=tf.make_tensor_proto(0.0))
    return tf.Summary(value=[value])


def _value(value: Any) -> bytes:
    """Encodes a `google.protobuf.Value`."""
    if isinstance(value, bool):
        return bytes([4 << 3, value])
    return _text(3, value) if isinstance(value, str) else _number(2, value)


# Protocol buffers' wire format: a key (field number and type), for bytes their length, then the content.


def _message(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8"))


def _number(field: int, number: Any) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", float(number))


def _varint(number: int) -> bytes:
    encoded = b""
    while number >= 128:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])
