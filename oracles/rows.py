"""One row of the table of layers, as the oracles read it, and what windows over images need in each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np

Pair = tuple[int, int]


@final
@attrs.frozen(eq=False)
class Row:
    """The results of a layer, and its inputs; all arrays for oracles are float64 or integers.

    Args:
        name: the row's name.
        layer: the layer's name.
        is_random: whether the layer draws random numbers.
        options: the layer's arguments.
        x: the input.
        variables: the variables by name.
        results: by dtype what was computed: `output`, `weight`, and `gradient/...` by target.
    """

    name: str
    layer: str
    is_random: bool
    options: Mapping[str, Any]
    x: np.ndarray
    variables: Mapping[str, np.ndarray]
    results: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def window(self) -> dict[str, Any]:
        """Strides, padding and dilation of the layer, with its defaults."""
        pools = self.layer in {"AvgPooling", "MaxPooling"}
        size = self.options.get("pool_size")
        strides = self.options.get("strides")
        return {
            "strides": pair(strides if strides is not None else size if pools else 1),
            "padding": self.options.get("padding", "valid" if pools else "same"),
            "dilations": pair(self.options.get("dilation_rate", 1)),
        }


def pair(value: Any) -> Pair:
    """A size over height and width, given as one number or two."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def paddings(sizes: tuple[int, ...], taps: tuple[int, ...], window: Mapping[str, Any]) -> list[Pair]:
    """The padding of TensorFlow before and after each spatial axis."""
    if window["padding"] == "valid":
        return [(0, 0) for _ in sizes]
    found = []
    for size, count, step, dilation in zip(sizes, taps, window["strides"], window["dilations"], strict=True):
        lacking = max((-(-size // step) - 1) * step + (count - 1) * dilation + 1 - size, 0)
        found.append((lacking // 2, lacking - lacking // 2))
    return found


def transposed_paddings(taps: Pair, window: Mapping[str, Any]) -> tuple[list[Pair], list[int]]:
    """The crop of a transposed convolution before and after each axis, and the padding at the end."""
    cut, added = [], []
    for count, step in zip(taps, window["strides"], strict=True):
        total = max(count - step, 0) if window["padding"] == "same" else 0
        cut.append((total // 2, total - total // 2))
        added.append(max(step - count, 0))
    return cut, added


def first(x: np.ndarray) -> np.ndarray:
    """Moves the channels to the front, as the oracles have them."""
    return np.moveaxis(x, -1, 1)


def last(x: np.ndarray) -> np.ndarray:
    """Moves the channels to the back."""
    return np.moveaxis(x, 1, -1)


def read_rows(directory: Path) -> list[Row]:
    """Reads all rows of a directory."""
    return [_read(path) for path in sorted(directory.glob("row*.npz"))]


def _read(path: Path) -> Row:
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays.pop("meta")))
    groups: dict[str, dict[str, np.ndarray]] = {}
    for key, value in arrays.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = value
    x = groups["input"][""]
    variables = {name: value.astype(np.float64) for name, value in groups.get("variables", {}).items()}
    options = {**meta["options"], **groups.get("options", {})}
    results = {dtype: groups[dtype] for dtype in ("float32", "float64") if dtype in groups}
    x = x.astype(np.float64) if x.dtype.kind == "f" else x
    return Row(meta["name"], meta["layer"], meta["random"], options, x, variables, results)
