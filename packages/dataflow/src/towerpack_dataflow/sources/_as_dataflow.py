"""Converts the argument of an operator to a flow."""

from __future__ import annotations

from typing import Any

from .._errors import ArgumentTypeError
from ..flow._flow import DataFlow
from ._from_iterable import DataFromIterable
from ._from_list import DataFromList

__all__ = ["as_dataflow"]


def as_dataflow(ds: Any) -> DataFlow:
    """Returns `ds` itself if it is a flow; else a flow over a sequence, or over any iterable.

    A sequence has `__len__` and `__getitem__`, like a data set of PyTorch. An object that also has `keys` is
    a mapping or a table; its members are not those at 0, 1, …

    Raises:
        ArgumentTypeError: `ds` is none of the above.
    """
    if isinstance(ds, DataFlow):
        return ds
    if isinstance(ds, (list, tuple, range)) or _is_sequence(ds):
        return DataFromList(ds, shuffle=False)
    if not hasattr(ds, "__iter__") or isinstance(ds, (str, bytes)):
        raise ArgumentTypeError(
            "expected a DataFlow, a list, an object with __len__ and __getitem__, or an object that can be "
            f"iterated repeatedly; received {type(ds).__name__}"
            + (". For a function that returns an iterator, use DataFromGenerator(it)" if callable(ds) else "")
        )
    return DataFromIterable(ds)


def _is_sequence(ds: Any) -> bool:
    if isinstance(ds, (str, bytes, type)) or hasattr(ds, "keys"):
        return False
    return hasattr(ds, "__len__") and hasattr(ds, "__getitem__")
