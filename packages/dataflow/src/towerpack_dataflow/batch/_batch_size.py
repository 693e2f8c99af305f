"""The check of the size of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ..flow._tree_fingerprint import known_length
from ..sources._from_list import DataFromList

__all__ = ["checked_batch_size"]


def checked_batch_size(flow: Any, batch_size: int, remainder: bool) -> int:
    """Checks and returns the size of batches.

    Args:
        flow: the flow of the datapoints.
        batch_size: the largest number of datapoints in a batch.
        remainder: whether the last batch of a pass may be smaller.

    Raises:
        ArgumentError: the size is not an integer above 0, or there would be no batch.
        ArgumentTypeError: `remainder` is not a boolean.
    """
    size = arguments.count("batch_size", batch_size)
    length = known_length(flow)
    if not arguments.flag("remainder", remainder) and length is not None and size > length:
        raise ArgumentError(
            f"batch_size={batch_size} is more than the {length} datapoints of a pass, so there would be "
            f"no batch; use a smaller one, or remainder=True{_columns_hint(flow)}"
        )
    return size


def _columns_hint(flow: Any) -> str:
    """Returns a hint if the flow is a list of arrays, each a column of examples."""
    columns = flow._lst if isinstance(flow, DataFromList) else ()
    if not isinstance(columns, (list, tuple)):  # such as a data set of PyTorch, which is slow to read
        return ""
    if not columns or not all(isinstance(column, np.ndarray) for column in columns):
        return ""
    return ". For arrays with one example per row, use DataFromArrays([images, labels])"
