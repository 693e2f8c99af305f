"""The statistics of a run: their history, and the base class of the monitors that record them."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import StatisticError
from ..callback._callback import Callback
from ..callback._every import LoopState
from ..summaries._add_summary import summary_tag
from ..writing._line_file import PNG_CHANNELS, encode_png

__all__ = [
    "COUNTERS",
    "Monitor",
    "Monitors",
    "Row",
    "ScalarHistory",
    "StepRow",
    "histogram_summary",
    "histograms_of",
    "image_summary",
    "images_of",
]


class Monitor(Callback):
    """Receives all statistics. Override the methods for the kinds that you record.

    A monitor is also a callback; monitors come last in the order. A buffering monitor overrides `flush`,
    which is called after each epoch, at the end of the training, and when the state of the run is read: a
    checkpoint of step n guarantees that everything up to step n is recorded, so that a run killed right after
    it resumes without a gap. A monitor that overrides `state_dict` calls `flush` in it.

    Example:
        >>> class Print(Monitor):
        ...     def process_scalar(self, name, value, global_step):
        ...         print(global_step, name, value)
        >>> Monitors([Print()], LoopState(steps_per_epoch=10)).put_scalar("cost", 0.5)
        0 cost 0.5
    """

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        """Records one number."""

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        """Records a TensorFlow summary as a whole; its scalars are also passed to `process_scalar`."""

    def process_message(self, text: str) -> None:
        """Records a line of text for the user, such as the path of a file."""

    def expect(self, headlines: Sequence[str]) -> None:
        """Receives the names of the callbacks' headline statistics, in order, before the training."""

    def flush(self) -> None:
        """Waits until all received data have left this process, or raises the error of writing them."""

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return {}

    def _trigger(self) -> None:
        self.flush()

    def _after_train(self) -> None:
        self.flush()

    def _directory(self) -> Path:
        """Returns the run's directory.

        Raises:
            ValueError: the run has no directory.
        """
        if self.log_dir is None:
            raise ValueError(
                f"{self} writes files, but this run has no log directory. Give log_dir=, or remove {self}."
            )
        return self.log_dir


# A row starts with these, so no statistic can have their names.
COUNTERS = ("epoch_num", "global_step", "env_steps")

Row: TypeAlias = dict[str, float | int]


@final
class StepRow:
    """The statistics of the current step; the row is finished when a later step puts a statistic.

    A row starts with `epoch_num` and `global_step`, and `env_steps` if it is not 0. The last value of a name
    counts.
    """

    def __init__(self) -> None:
        self._row: Row = {}

    def add(
        self, name: str, value: float, epoch_num: int, global_step: int, env_steps: int = 0
    ) -> Row | None:
        """Adds a value; returns the row of an earlier step if this value ends it."""
        finished = self.take_before(global_step)
        if not self._row:
            self._row = {"epoch_num": epoch_num, "global_step": global_step}
            if env_steps:
                self._row["env_steps"] = env_steps
        self._row[name] = value
        return finished

    def take(self) -> Row | None:
        """Returns the row and starts another; None if the row is empty."""
        row, self._row = self._row, {}
        return row or None

    def take_before(self, global_step: int) -> Row | None:
        """Returns the row and starts another if the row belongs to a different step; else None."""
        return self.take() if self._row and self._row["global_step"] != global_step else None

    def last_recorded_step(self, global_step: int) -> int:
        """Returns the step up to which files are complete, for a run that continues after `global_step`."""
        return int(self._row["global_step"]) - 1 if self._row else global_step

    def state_dict(self) -> dict[str, Any]:
        """Returns the unfinished row, if any: a checkpoint may be made before the row is written."""
        return {"row": dict(self._row)} if self._row else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with the row of `state`."""
        self._row = dict(state.get("row", {}))


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


@final
class ScalarHistory(Monitor):
    """Keeps the newest values of each statistic; `Monitors` reads from it.

    Every checkpoint contains it, so a callback reads the same history after a restart.

    Args:
        limit: the minimum number of values kept per statistic; the maximum is twice as large.

    Example:
        >>> history = ScalarHistory(limit=100)
        >>> history.process_scalar("cost", 0.5, global_step=10)
        >>> history.names(), history.pairs("cost")
        (['cost'], [(10, 0.5)])
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._steps: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        if name not in self._steps:
            self._steps[name], self._values[name] = array("q"), array("d")
        steps, values = self._steps[name], self._values[name]
        steps.append(global_step)
        values.append(value)
        if len(steps) > 2 * self._limit:
            del steps[: self._limit], values[: self._limit]

    def names(self) -> list[str]:
        """Returns the names of the statistics, sorted."""
        return sorted(self._steps)

    def __contains__(self, name: str) -> bool:
        return name in self._steps

    def latest(self, name: str) -> float:
        """Returns the last value of a statistic."""
        return self._values[name][-1]

    def pairs(self, name: str) -> list[tuple[int, float]]:
        """Returns the pairs (global_step, value) of a statistic, oldest first."""
        return list(zip(self._steps[name], self._values[name]))

    def state_dict(self) -> dict[str, Any]:
        # Packed: exact for every float, and a tenth of the time and space of numbers in JSON.
        return {
            name: {"steps": _pack(steps, "<i8"), "values": _pack(self._values[name], "<f8")}
            for name, steps in self._steps.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = {name: array("q", _unpack(packed["steps"], "<i8")) for name, packed in state.items()}
        self._values = {name: array("d", _unpack(packed["values"], "<f8")) for name, packed in state.items()}


def _pack(numbers: array[Any], dtype: str) -> str:
    return base64.b64encode(np.asarray(numbers).astype(dtype).tobytes()).decode("ascii")


def _unpack(packed: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(packed), dtype).tolist()


@final
class Monitors:
    """Passes statistics to all monitors and keeps their history.

    Iterating yields the monitors that a loop must run among its callbacks: a `ScalarHistory`, which saves the
    history in checkpoints, then the given monitors.

    Args:
        monitors: the monitors that record the statistics.
        loop: the counters; each value is recorded with their `global_step`.

    Raises:
        TypeError: an element is not a `Monitor`.

    Example:
        >>> monitors = Monitors([], LoopState(steps_per_epoch=10))
        >>> monitors.put_scalar("cost", 0.5)
        >>> monitors.get_latest("cost"), monitors.get_history("cost")
        (0.5, [(0, 0.5)])
    """

    def __init__(self, monitors: Sequence[Monitor], loop: LoopState) -> None:
        for monitor in monitors:
            if not isinstance(monitor, Monitor):
                raise TypeError(f"monitors must be Monitor objects, received {monitor!r}.")
        self._history = ScalarHistory()
        self._monitors = (self._history, *monitors)
        self._loop = loop

    def __iter__(self) -> Iterator[Monitor]:
        return iter(self._monitors)

    def __contains__(self, name: str) -> bool:
        return name in self._history

    def put_scalar(self, name: str, value: float | np.ndarray) -> None:
        """Records one number under `name`.

        Raises:
            TypeError: the value is not a single number, or the name is not a string.
            StatisticError: the name equals that of a counter in each row, or is not valid UTF-8.
        """
        _check_name(name)
        array = np.asarray(value)
        if array.size != 1 or not _is_real(array.dtype):
            raise TypeError(
                f"put_scalar({name!r}) takes one number, received {array.dtype} of shape {array.shape}."
            )
        number = float(array.reshape(-1)[0])
        step = self._loop.global_step
        for monitor in self._monitors:
            monitor.process_scalar(name, number, step)

    def put_message(self, text: str) -> None:
        """Records a line of text for the user; the console prints it."""
        for monitor in self._monitors:
            monitor.process_message(text)

    def put_image(self, name: str, images: np.ndarray) -> None:
        """Records one or more images.

        Args:
            name: the name of the images.
            images: shape [height, width], [height, width, channels] or [number, height, width, channels];
                1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels; values in 0…255.

        Raises:
            TypeError: the values are no numbers.
            ValueError: the shape is not one of these.
        """
        self._put(image_summary(name, images))

    def put_histogram(self, name: str, values: np.ndarray) -> None:
        """Records the distribution of numbers; non-finite values are ignored.

        Raises:
            TypeError: the values are no numbers.
            ValueError: none of the numbers is finite.
        """
        self._put(histogram_summary(name, values))

    def put_summary(self, serialized: bytes | tf.Summary) -> None:
        """Records a `tf.Summary`, or a serialized one, such as an evaluated summary op."""
        summary = tf.Summary()
        summary.MergeFromString(
            serialized if isinstance(serialized, bytes) else serialized.SerializeToString()
        )
        for value in summary.value:
            value.tag = summary_tag(value.tag)
        self._put(summary)
        for value in summary.value:
            if value.HasField("simple_value"):
                self.put_scalar(value.tag, value.simple_value)

    def _put(self, summary: tf.Summary) -> None:
        for monitor in self._monitors:
            monitor.process_summary(summary, self._loop.global_step)

    def get_latest(self, name: str) -> float:
        """Returns the last value of the statistic `name`.

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        self._check_known(name)
        return self._history.latest(name)

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """Returns the values of `name` as pairs (global_step, value), also from before a restart.

        At least the newest 10,000 values of each statistic are kept; files contain all of them.

        Raises:
            StatisticError: nothing was put under that name yet.
        """
        self._check_known(name)
        return self._history.pairs(name)

    def _check_known(self, name: str) -> None:
        if name not in self._history:
            known = ", ".join(self._history.names()) or "none"
            raise StatisticError(f"The statistic {name!r} has no value yet. Statistics with values: {known}.")


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"put_scalar({name!r}): expected a string as the name of a statistic.")
    if name in COUNTERS:
        raise StatisticError(
            f"put_scalar({name!r}): each row of statistics has a counter of this name. Give the statistic "
            "another name."
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise StatisticError(
            f"put_scalar({name!r}): the name cannot be written as UTF-8: {error}."
        ) from error


def _is_real(dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "V":
        return dtype.kind in "buif"
    try:
        known = tf.as_dtype(dtype)  # bfloat16 and other types that NumPy lacks
    except TypeError:
        return False
    return bool(known.is_floating or known.is_integer)
