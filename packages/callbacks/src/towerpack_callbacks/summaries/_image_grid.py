"""Arranges images in a grid, and records pictures of a generator for fixed inputs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import tensorflow.compat.v1 as tf

from .._errors import CheckpointError
from ..callback._callback import Callback, output_directory
from ..callback._every import check_count
from ..writing._line_file import PNG_CHANNELS, cut_pictures_after, write_picture

__all__ = ["SampleGrid", "check_images", "image_grid"]


def image_grid(
    images: npt.ArrayLike,
    columns: int,
    value_range: tuple[float, float] = (0.0, 255.0),
    border: int = 2,
    background: int = 255,
) -> npt.NDArray[np.uint8]:
    """Arranges images in a grid, row by row, as one image.

    Args:
        images: shape [number, height, width, channels] with 1 to 4 channels, or [number, height, width].
        columns: the number of images per row; the last row may have fewer.
        value_range: the values that become 0 and 255, such as (-1, 1) for a generator that ends with tanh;
            other values are clipped, and NaN becomes the middle.
        border: number of pixels between and around images.
        background: brightness of the border, from 0 to 255.

    Returns:
        uint8 of shape [height, width, channels]; one channel for images without a channel axis.

    Raises:
        ValueError: the shape is not one of these, the number of columns is below 1, or the range is empty.

    Example:
        >>> image_grid(np.zeros([5, 8, 8, 3]), columns=3).shape  # 2 rows of 3
        (22, 32, 3)
    """
    low, high = value_range
    if not low < high:
        raise ValueError(
            f"image_grid(value_range={value_range!r}): expected two numbers, the lower one first."
        )
    if not isinstance(columns, int) or columns < 1:
        raise ValueError(f"image_grid(columns={columns!r}): expected a whole number of at least 1.")
    batch = np.asarray(images)
    check_images("image_grid", batch.shape)
    batch = batch[..., None] if batch.ndim == 3 else batch
    number, height, width, channels = batch.shape
    rows = -(-number // columns)
    down, right = height + border, width + border
    grid = np.full([rows * down + border, columns * right + border, channels], background, np.uint8)
    for index, image in enumerate(_as_bytes(batch, low, high)):
        top, left = index // columns * down + border, index % columns * right + border
        grid[top : top + height, left : left + width] = image
    return grid


def check_images(shown: str, shape: tuple[int, ...]) -> None:
    """Checks that a shape is a batch of images.

    Args:
        shown: the owner of the images, for the message.
        shape: the shape.

    Raises:
        ValueError: it is not.
    """
    is_colourful = len(shape) == 4 and shape[3] in PNG_CHANNELS
    if not (is_colourful or len(shape) == 3) or 0 in shape:
        raise ValueError(
            f"{shown} takes images of shape [number, height, width, channels] with 1 to 4 channels, or "
            f"[number, height, width]; received shape {shape}."
        )


def _as_bytes(images: np.ndarray, low: float, high: float) -> npt.NDArray[np.uint8]:
    shares = (np.asarray(images, np.float64) - low) / (high - low)
    shares = np.nan_to_num(shares, nan=0.5, posinf=1.0, neginf=0.0)
    return (np.clip(shares, 0, 1) * 255).round().astype(np.uint8)


Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@final
class SampleGrid(Callback):
    """Draws the generator's output for fixed inputs at each trigger, as one picture of many samples.

    Pictures are files, `<log_dir>/images/<name>/<global_step>.png`, which the page of
    `python -m towerpack_callbacks plot` shows over time, and are put to the monitors, so that TensorBoard
    shows them. Random inputs are drawn once, at set-up; they are part of the callback's state, so that a
    resumed run uses the same inputs. A run that resumes or restarts in the same directory removes pictures of
    steps after its first one.

    The model runs in evaluation mode. `ema.applied_to(SampleGrid(...))` draws with averaged weights.

    Args:
        output: name of the tensor of generated images, [number, height, width, channels] with 1 to 4
            channels, or [number, height, width].
        inputs: the feeds, by name of an input or a tensor: an array with a row for each sample, such as
            labels; or a function of a NumPy generator and a shape that draws an array. None: "z", drawn from
            the normal distribution.
        rows: the number of rows of samples.
        columns: the number of samples per row.
        value_range: the values of black and white.
        seed: seed of the random inputs.
        name: name of the pictures and of their folder.

    Raises:
        TypeError: an input is neither an array nor a function.
        ValueError: an argument is invalid; or (at set-up) the run has no log directory, an input's shape is
            unknown, or the output is not an image.
        CheckpointError: (on resume) the saved inputs have other names or shapes.

    Example:
        ```python
        labels = np.repeat(np.arange(10), 8)  # a row for each digit
        SampleGrid("gen/out", {"z": lambda rng, shape: rng.uniform(-1, 1, shape), "label": labels}, rows=10)
        ```
    """

    def __init__(
        self,
        output: str,
        inputs: Mapping[str, np.ndarray | Sequence[Any] | Draw] | None = None,
        rows: int = 8,
        columns: int = 8,
        value_range: tuple[float, float] = (-1.0, 1.0),
        seed: int = 0,
        name: str = "samples",
    ) -> None:
        check_count(f"SampleGrid(rows={rows!r})", rows)
        check_count(f"SampleGrid(columns={columns!r})", columns)
        if not value_range[0] < value_range[1]:
            raise ValueError(
                f"SampleGrid(value_range={value_range!r}): expected two numbers, the lower first."
            )
        if not name or Path(name).name != name:
            raise ValueError(f"SampleGrid(name={name!r}): expected the name of a folder.")
        self._given = {"z": _normal} if inputs is None else dict(inputs)
        self._number, self._columns = rows * columns, columns
        self._drawn: dict[str, np.ndarray] = {}
        self._fixed = {key: self._as_rows(key, it) for key, it in self._given.items() if not callable(it)}
        self._output, self._value_range, self._seed, self._name = output, value_range, seed, name

    def _as_rows(self, key: str, given: Any) -> np.ndarray:
        array = np.asarray(given)
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"SampleGrid(inputs={{{key!r}: ...}}) takes an array or a function, received {given!r}."
            )
        if not array.ndim or len(array) != self._number:
            raise ValueError(
                f"SampleGrid's input {key!r} has shape {array.shape}: expected {self._number} rows, one for "
                "each of rows * columns samples."
            )
        return array

    def _setup_graph(self) -> None:
        self._log_dir = output_directory(self)
        tensors = dict(zip(self._given, self.trainer.get_tensors(list(self._given))))
        random = np.random.default_rng(self._seed)
        self._drawn = {
            key: self._as_rows(key, draw(random, self._shape_of(tensors[key]))).astype(
                tensors[key].dtype.as_numpy_dtype
            )
            for key, draw in self._given.items()
            if callable(draw)
        }
        self._predict = self.trainer.get_predictor(list(self._given), [self._output])

    def _shape_of(self, tensor: tf.Tensor) -> tuple[int, ...]:
        rest = tensor.shape[1:] if tensor.shape.rank else None
        if rest is None or not rest.is_fully_defined():
            raise ValueError(
                f"SampleGrid draws random inputs of the shape of {tensor.op.name!r} after its first axis, "
                f"but that tensor has shape {tensor.shape}. Give it a static shape in the model, such as "
                "[None, 64]."
            )
        return (self._number, *rest.as_list())

    def _before_train(self) -> None:
        cut_pictures_after(self._log_dir, self._name, self.global_step)

    def _trigger(self) -> None:
        inputs = {**self._fixed, **self._drawn}
        (images,) = self._predict(*(inputs[key] for key in self._given))
        check_images(f"SampleGrid({self._output!r})", np.shape(images))
        picture = image_grid(images, self._columns, self._value_range)
        write_picture(self._log_dir, self._name, self.global_step, picture)
        self.trainer.monitors.put_image(self._name, picture)

    def state_dict(self) -> dict[str, Any]:
        return {key: _encode(array) for key, array in self._drawn.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        saved = {key: _decode(value) for key, value in state.items()}
        here = {key: array.shape for key, array in self._drawn.items()}
        there = {key: array.shape for key, array in saved.items()}
        if here != there:
            raise CheckpointError(
                f"{self} draws inputs of shapes {here}; those of the checkpoint have {there}. Use the same "
                "rows, columns and inputs as before, or start a new run."
            )
        self._drawn = saved

    def __str__(self) -> str:
        return f"SampleGrid({self._output!r})"


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape)


def _encode(array: np.ndarray) -> dict[str, Any]:
    little_endian = array.astype(array.dtype.newbyteorder("<"))
    content = base64.b64encode(little_endian.tobytes()).decode()
    return {"dtype": little_endian.dtype.str, "shape": list(array.shape), "content": content}


def _decode(saved: dict[str, Any]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(saved["content"]), saved["dtype"])
    return flat.reshape(saved["shape"]).astype(flat.dtype.newbyteorder("="))
