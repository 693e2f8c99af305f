"""`arrow_columns`: the columns of a data set of Hugging Face as arrays in its mapped file."""

from __future__ import annotations

from typing import Any, final

import numpy as np

__all__ = ["arrow_columns"]


def arrow_columns(dataset: Any) -> dict[str, Any] | None:
    """Returns the columns of a `datasets.Dataset` for `DataFromArrays`.

    Args:
        dataset: the data set.

    Returns:
        The columns, by name; `None` if one has other values than numbers or lists of a fixed length, or has
        missing values, or if the data set has a format, a transform or reordered rows.
    """
    if dataset.format["type"] is not None or dataset._indices is not None or not len(dataset):
        return None
    table = dataset.data
    columns = [table.column(name) for name in dataset.column_names]
    if not columns or any(column.null_count or _number_type(column.type) is None for column in columns):
        return None
    return {name: _ArrowColumn(dataset, name) for name in dataset.column_names}


def _number_type(kind: Any) -> tuple[np.dtype, tuple[int, ...]] | None:
    """Returns dtype and shape of a row of an Arrow type; `None` without such arrays."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        inner = _number_type(kind.value_type)
        return None if inner is None or inner[1] else (inner[0], (kind.list_size,))
    if types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()), ()
    return None


@final
class _ArrowColumn:
    """One column, with the parts of an array that `DataFromArrays` needs; a copy maps the file again."""

    def __init__(self, dataset: Any, name: str) -> None:
        self._dataset, self._name = dataset, name
        found = _number_type(dataset.data.column(name).type)
        assert found is not None
        self.dtype, row = found
        self.shape = (len(dataset), *row)
        self._chunks: list[np.ndarray] = []
        self._starts = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            rows = np.arange(len(self))[rows]
        chunks = self._chunks or self._opened()
        if np.ndim(rows) == 0:
            number = int(np.searchsorted(self._starts, rows, "right")) - 1
            return chunks[number][int(rows) - int(self._starts[number])]
        if len(chunks) == 1:
            return chunks[0][rows]
        made = np.empty((len(rows), *self.shape[1:]), self.dtype)
        numbers = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(numbers):
            here = numbers == number
            made[here] = chunks[number][rows[here] - self._starts[number]]
        return made

    def _opened(self) -> list[np.ndarray]:
        parts = self._dataset.data.column(self._name).chunks
        flat = [part.flatten() if self.shape[1:] else part for part in parts]
        self._starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
        self._chunks = [part.to_numpy(zero_copy_only=True).reshape(-1, *self.shape[1:]) for part in flat]
        return self._chunks

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_chunks": []}
