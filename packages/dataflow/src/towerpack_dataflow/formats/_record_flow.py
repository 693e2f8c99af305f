"""`RecordFlow`: the records of a file as datapoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..sources._from_list import DataFromList

__all__ = ["RecordFlow"]


class RecordFlow(DataFromList):
    """Yields the records of a file; addressable.

    A position is the number of a record, so a pass goes on at any record at once, and workers share out the
    records of a pass. Each process opens the file for itself when it first reads; a copy of the flow holds
    the file's name and what finds a record.

    Args:
        records: a sequence that makes a new datapoint each time a record is read.
        shuffle: whether each epoch has an order of its own.
    """

    _holds = ()
    _steady = True  # a record is made anew each time; a subclass says both again
    _argument_names: Mapping[str, str] = {"records": "_lst"}

    def __init__(self, records: Sequence[Any], shuffle: bool) -> None:
        """Keeps `records`; reads none."""
        super().__init__(records, shuffle)
