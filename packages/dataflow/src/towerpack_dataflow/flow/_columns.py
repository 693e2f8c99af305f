"""How a flow describes the batches that it can fill by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["NUMBER_DTYPES", "Columns", "Field", "assembled", "numbers_dtype"]

Field = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of an array."""

NUMBER_DTYPES = {bool: np.bool_, float: np.float32, complex: np.complex64}
"""What Python's numbers become in a batch; integers become int32, or what holds all of them."""

_INT32 = range(-(2**31), 2**31)


class Columns(NamedTuple):
    """The layout of a flow's batches.

    Attributes:
        kind: the type of datapoints and batches.
        keys: of the components, in order.
        fields: shape and dtype of each component in one datapoint.
    """

    kind: type[Any]
    keys: Sequence[Any]
    fields: Sequence[Field]

    def rows(self, count: int) -> list[Field]:
        """Returns shape and dtype of each component in a batch of `count`."""
        return [((count, *shape), dtype) for shape, dtype in self.fields]


def assembled(kind: type[Any], keys: Sequence[Any], values: Sequence[Any]) -> Any:
    """Assembles components into a datapoint of type `kind`."""
    if issubclass(kind, dict):
        return dict(zip(keys, values))
    if issubclass(kind, list):
        return list(values)
    make = getattr(kind, "_make", tuple)  # a named tuple keeps its names
    return make(values)


def numbers_dtype(kind: type, values: Sequence[Any]) -> np.dtype | None:
    """Returns the dtype of Python numbers in any batch; `None` if the dtype may differ between batches."""
    if kind is int:
        fits = not values or (min(values) in _INT32 and max(values) in _INT32)
        return np.dtype(np.int32) if fits else None
    return np.dtype(NUMBER_DTYPES[kind]) if kind in NUMBER_DTYPES else None
