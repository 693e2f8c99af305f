"""Functions for `collate=`: make a batch of datapoints of different lengths.

Each takes a list of datapoints: arrays, tensors or lists of numbers, at any depth of dicts, lists and tuples.
Set options with `functools.partial`. `BatchByBudget` takes the same functions, for batches within a budget of
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, BatchError
from ..batch._batch_data import BatchData
from ..sources._from_ragged import RaggedRows, takes_ragged_rows
from ._nested import joined, leaves

__all__ = ["RaggedArray", "pad", "ragged"]

_NUMBERS = (int, float, bool, np.generic)


@final
class RaggedArray(NamedTuple):
    """Arrays of different lengths, one after the other.

    `torch.nested.nested_tensor_from_jagged(values, offsets)` makes a nested tensor of it.

    Attributes:
        values: all arrays, concatenated along their first axis.
        offsets: the place of each array in `values`, and the end of the last; int64.
    """

    values: np.ndarray
    offsets: np.ndarray


@takes_ragged_rows
def pad(
    datapoints: list[Any] | RaggedRows,
    *,
    multiple_of: int = 1,
    length: int | None = None,
    values: Any = 0,
    mask: str | None = None,
) -> Any:
    """Stacks datapoints, with arrays padded at the end of each axis to the longest one.

    Values without an axis are stacked: Python's integers as int64, its floats as float32.

    Args:
        datapoints: the members of the batch.
        multiple_of: the padded first axis is a multiple of this, for tensor cores or few shapes to compile.
        length: the padded length of the first axis, instead of that of the longest array.
        values: the padding value, or a dict of them by key; 0 for other keys. The key of a nested component
            is its path, such as "text.ids".
        mask: in datapoints that are dicts, the key of an added boolean array, with True for values and False
            for padding of the first component with an axis.

    Raises:
        ArgumentError: `multiple_of` or `length` is not an integer above 0, or `mask` is set for datapoints
            that are not dicts, or is one of their keys.
        BatchError: the datapoints differ in structure, dtype or number of axes, an array is longer than
            `length`, or a dtype cannot represent the padding value.

    Example:
        >>> batch = pad([{"ids": [1, 2, 3], "label": 0}, {"ids": [4], "label": 1}], mask="mask")
        >>> batch["ids"].tolist()
        [[1, 2, 3], [4, 0, 0]]
        >>> batch["mask"].tolist(), batch["label"].tolist()
        ([[True, True, True], [True, False, False]], [0, 1])
    """
    multiple = arguments.count("multiple_of", multiple_of)
    fixed = None if length is None else arguments.count("length", length, instead=", or None")
    lengths: list[np.ndarray] = []

    def padded(key: str, parts: list[np.ndarray]) -> np.ndarray:
        fill = values.get(key, 0) if isinstance(values, Mapping) else values
        made = _padded(key, parts, multiple, fixed, fill)
        lengths.append(np.arange(made.shape[1]) < np.array([len(part) for part in parts])[:, None])
        return made

    batch = _collated(datapoints, padded)
    if mask is not None:
        if not isinstance(batch, dict) or mask in batch or not lengths:
            raise ArgumentError(
                f"mask={mask!r} is a new key of datapoints that are dicts with an array; received "
                f"{type(datapoints[0]).__name__} with {list(batch) if isinstance(batch, dict) else 'no keys'}"
            )
        batch[mask] = lengths[0]
    return batch


@takes_ragged_rows
def ragged(datapoints: list[Any] | RaggedRows) -> Any:
    """Joins datapoints without padding: arrays of a component become a `RaggedArray`; others are stacked.

    Args:
        datapoints: the members of the batch.

    Raises:
        BatchError: the datapoints differ in structure, dtype or the axes after the first.

    Example:
        >>> batch = ragged([[[1, 2, 3], 0], [[4], 1]])
        >>> batch[0].values.tolist(), batch[0].offsets.tolist(), batch[1].tolist()
        ([1, 2, 3, 4], [0, 3, 4], [0, 1])
    """
    return _collated(datapoints, _concatenated)


def _collated(datapoints: list[Any] | RaggedRows, join: Callable[[str, list[np.ndarray]], Any]) -> Any:
    """Joins the arrays of each component with `join`, and stacks the others."""
    if isinstance(datapoints, RaggedRows):
        return datapoints.joined(join)
    columns: list[tuple[str, list[Any]]] = []
    structure: Any = None
    for number, datapoint in enumerate(datapoints):
        found: list[tuple[tuple[Any, ...], Any]] = []
        own = leaves(_with_arrays(datapoint), found)
        if not number:
            structure = own
            columns = [(".".join(map(str, path)), []) for path, _ in found]
        elif own != structure:
            raise BatchError(
                f"cannot batch: datapoint {number} of the batch has other components than datapoint 0; make "
                "them alike in a MapData below"
            )
        for (_, column), (_, leaf) in zip(columns, found):
            column.append(leaf)
    return joined(structure, iter([_joined(key, column, join) for key, column in columns]))


def _joined(key: str, column: list[Any], join: Callable[[str, list[np.ndarray]], Any]) -> Any:
    if getattr(column[0], "ndim", 0) > 0:
        return join(key, _alike(key, list(map(np.asarray, column))))
    wide = [np.int64(value) if type(value) is int else value for value in column]
    return BatchData.aggregate_batch([{key: value} for value in wide])[key]


def _with_arrays(value: Any) -> Any:
    """Returns a nested value with arrays in place of lists of numbers."""
    if isinstance(value, list) and all(isinstance(part, _NUMBERS) for part in value):
        return np.array(value, None if value else np.int64)
    if isinstance(value, dict):
        return {key: _with_arrays(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_with_arrays(part) for part in value]
        return type(value)._make(parts) if hasattr(value, "_make") else type(value)(parts)
    return value


def _alike(key: str, parts: list[np.ndarray]) -> list[np.ndarray]:
    first = parts[0]
    for number, part in enumerate(parts):
        if part.dtype != first.dtype or part.ndim != first.ndim:
            raise BatchError(
                f"cannot batch: datapoint {number} of the batch has an array of {part.dtype} with "
                f"{part.ndim} axes in component {key!r}, and datapoint 0 one of {first.dtype} with "
                f"{first.ndim}"
            )
    return parts


def _padded(key: str, parts: list[np.ndarray], multiple: int, length: int | None, fill: Any) -> np.ndarray:
    shape = np.max([part.shape for part in parts], axis=0).tolist()
    if length is not None and shape[0] > length:
        longest = int(np.argmax([len(part) for part in parts]))
        raise BatchError(
            f"cannot batch: datapoint {longest} of the batch has {shape[0]} values in component {key!r}, "
            f"more than length={length}; truncate it in a MapData below"
        )
    shape[0] = -(-(length or shape[0]) // multiple) * multiple
    dtype = parts[0].dtype
    with np.errstate(all="ignore"):
        value = np.array(fill).astype(dtype)
    if not (value == fill or (value != value and fill != fill)):
        raise BatchError(
            f"cannot batch: the padding value {fill!r} of component {key!r} is not one of {dtype}; "
            "set values="
        )
    batch = np.full((len(parts), *shape), value)
    for row, part in zip(batch, parts):
        row[tuple(map(slice, part.shape))] = part
    return batch


def _concatenated(key: str, parts: list[np.ndarray]) -> RaggedArray:
    if len({part.shape[1:] for part in parts}) > 1:
        raise BatchError(
            f"cannot batch: the arrays of component {key!r} differ in the axes after the first: "
            f"{sorted({part.shape[1:] for part in parts})}; use pad"
        )
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return RaggedArray(np.concatenate(parts), offsets)
