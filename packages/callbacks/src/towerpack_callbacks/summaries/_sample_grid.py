"""Pictures of a generator's output for fixed random inputs, over time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import CheckpointError
from ..callback import Callback, check_count, output_directory
from ..writing import cut_pictures_after, write_picture
from ._image_grid import check_images, image_grid

__all__ = ["SampleGrid"]

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
