"""TensorBoard: event files, and the encoding of images, histograms and hyper-parameters."""

from __future__ import annotations

import numbers
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..writing import PNG_CHANNELS, encode_png
from ._monitor import Monitor

__all__ = [
    "HParams",
    "TFEventWriter",
    "check_hparams",
    "histogram_summary",
    "histograms_of",
    "image_summary",
    "images_of",
    "session_start_summary",
]


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


@final
class TFEventWriter(Monitor):
    """Writes scalars, images, histograms and the graph to `events.out.tfevents.*` in the log directory.

    TensorFlow's writer uses a separate thread, so the step loop does not wait for the disk. When a run
    resumes, the new file makes TensorBoard drop the data that the interrupted run wrote after the checkpoint.

    Args:
        flush_secs: the maximum time between two flushes, in seconds; also flushed after each epoch.
        hparams: the run's hyper-parameters, for the comparison of runs in TensorBoard's HParams tab.

    Raises:
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(self, flush_secs: float = 120, hparams: HParams | None = None) -> None:
        self._flush_secs = flush_secs
        self._hparams = check_hparams("TFEventWriter", hparams)
        self._writer: tf.summary.FileWriter | None = None

    def _setup_graph(self) -> None:
        self._writer = None

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> tf.summary.FileWriter:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if self._writer is None:
            if self.global_step:
                _await_a_later_second(self._directory())
            # FileWriter cannot be created while eager execution is enabled.
            with self.graph.as_default():
                self._writer = tf.summary.FileWriter(str(self._directory()), flush_secs=self._flush_secs)
            # Only the graph: the meta graph that the constructor would add repeats it with all collections.
            self._writer.add_graph(self.graph)
            if self.global_step:
                # Makes TensorBoard drop the data of an interrupted run from that step on.
                start = tf.SessionLog(status=tf.SessionLog.START)
                self._writer.add_session_log(start, self.global_step + 1)
            if self._hparams:
                self._writer.add_summary(session_start_summary(self._hparams, time.time()), self.global_step)
        return self._writer

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        rest = tf.Summary(value=[v for v in summary.value if not v.HasField("simple_value")])
        if rest.value:
            self._open().add_summary(rest, global_step)

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        summary = tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value)])
        self._open().add_summary(summary, global_step)

    def flush(self) -> None:
        """Waits until all data are in the event file."""
        if self._writer is not None:
            self._writer.flush()

    def _after_train(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()


def _await_a_later_second(directory: Path) -> None:
    """Makes the next event file sort behind existing ones, since TensorBoard reads them by name.

    A name contains the second of the file's creation and then the process number, which may be lower than
    that of the interrupted process.
    """
    now = time.time()
    if any(directory.glob(f"events.out.tfevents.{int(now)}.*")):
        time.sleep(1 - now % 1)


_BINS = 64


def image_summary(name: str, images: Any) -> tf.Summary:
    """Makes a summary of one or more images, each as a PNG.

    Args:
        name: the tag; for several images, the prefix of the numbered tags.
        images: array of shape [height, width], [height, width, channels] or [number, height, width, channels]
            with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels, values in 0…255 of any number type;
            other values are clipped.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: the shape is not one of these.
    """
    array = np.asarray(images)
    if array.dtype.kind not in "buif":
        raise TypeError(f"put_image({name!r}) takes an array of numbers in 0…255, received {array.dtype}.")
    batch = array[None, :, :, None] if array.ndim == 2 else array[None] if array.ndim == 3 else array
    if batch.ndim != 4 or not batch.size or batch.shape[3] not in PNG_CHANNELS:
        raise ValueError(
            f"put_image({name!r}) takes [height, width], [height, width, channels] or [number, height, "
            f"width, channels] with 1 to 4 channels, received shape {array.shape}."
        )
    if batch.dtype != np.uint8:
        batch = np.clip(np.nan_to_num(np.asarray(batch, np.float64)), 0, 255).round().astype(np.uint8)
    tags = [name] if len(batch) == 1 else [f"{name}/{number}" for number in range(len(batch))]
    return tf.Summary(value=[_image_value(tag, image) for tag, image in zip(tags, batch)])


def _image_value(tag: str, image: np.ndarray) -> Any:
    height, width, channels = image.shape
    encoded = tf.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encode_png(image)
    )
    return tf.Summary.Value(tag=tag, image=encoded)


def histogram_summary(name: str, values: Any) -> tf.Summary:
    """Makes a summary of the distribution of numbers, in 64 bins of equal width.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: none of the values is finite.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise TypeError(f"put_histogram({name!r}) takes an array of numbers, received {array.dtype}.")
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        raise ValueError(
            f"put_histogram({name!r}) needs at least one finite number; received {array.size} non-finite "
            "ones."
        )
    counts, edges = np.histogram(finite, bins=_BINS)
    histogram = tf.HistogramProto(
        min=finite.min(),
        max=finite.max(),
        num=finite.size,
        sum=finite.sum(),
        sum_squares=np.square(finite).sum(),
        bucket_limit=edges[1:],
        bucket=counts,
    )
    return tf.Summary(value=[tf.Summary.Value(tag=name, histo=histogram)])


def images_of(summary: tf.Summary) -> Iterator[tuple[str, bytes]]:
    """Yields tags and encoded images of a summary; TensorFlow and `image_summary` encode as PNG."""
    for value in summary.value:
        if value.HasField("image"):
            yield value.tag, value.image.encoded_image_string


def histograms_of(summary: tf.Summary) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yields tags, counts [n] and edges [n + 1] of histograms; edges are within the range of the values."""
    for value in summary.value:
        if value.HasField("histo"):
            histogram = value.histo
            limits = np.clip(np.asarray(histogram.bucket_limit), histogram.min, histogram.max)
            yield value.tag, np.asarray(histogram.bucket), np.concatenate([[histogram.min], limits])
