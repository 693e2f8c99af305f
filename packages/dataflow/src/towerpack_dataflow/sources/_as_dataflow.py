"""Whatever an operator is put over, as a flow."""

from __future__ import annotations

from typing import Any

from .._errors import ArgumentTypeError
from ..flow._flow import DataFlow
from ._from_iterable import DataFromIterable
from ._from_list import DataFromList

__all__ = ["as_dataflow"]


def as_dataflow(ds: Any) -> DataFlow:
    """Returns `ds` itself if it is a flow; else a flow over a sequence, or over any iterable.

    Raises:
        ArgumentTypeError: `ds` is none of these.
    """
    if isinstance(ds, DataFlow):
        return ds
    if isinstance(ds, (list, tuple, range)):
        return DataFromList(ds, shuffle=False)
    if not hasattr(ds, "__iter__") or isinstance(ds, (str, bytes)):
        raise ArgumentTypeError(
            f"expected a DataFlow, a list, or something to iterate over again and again; "
            f"received {type(ds).__name__}"
        )
    return DataFromIterable(ds)
