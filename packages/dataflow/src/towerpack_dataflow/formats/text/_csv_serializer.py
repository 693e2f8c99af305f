"""`CSVSerializer`: writes and reads flows as text tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, SendError
from ...sources._from_iterable import as_dataflow
from ...storage import URL, create_file
from .._progress import with_progress
from .._shown_value import shown
from ._csv_data import CSVData
from ._csv_fields import field_of
from ._plain_values import plain_scalar

__all__ = ["CSVSerializer"]


@final
class CSVSerializer:
    """Writes a flow of numbers, text, booleans and None as a table and reads the same values.

    Text that looks like another value is quoted, so that `load` distinguishes `1` from `"1"`, and None, an
    empty field, from `""`. Other programs read such a file like any other table.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.csv"
        >>> CSVSerializer.save([[0.5, "1"], [None, "a"]], path, ["x", "name"])
        >>> list(CSVSerializer.load(path))
        [{'x': 0.5, 'name': '1'}, {'x': None, 'name': 'a'}]
    """

    @staticmethod
    def save(df: Any, path: URL, columns: Sequence[str], *, plain: bool = False) -> None:
        """Writes one pass of a flow, one row per datapoint.

        Args:
            df: the flow, a list or another iterable; datapoints are lists or tuples, or dicts of the columns.
                `load` yields dicts.
            path: path of the file. An existing file is replaced.
            columns: names of the columns, for the header.
            plain: whether NumPy scalars are also accepted, and written as the Python numbers they are read
                as.

        Raises:
            ArgumentError: the number of components differs from the number of columns, or the names are not
                distinct strings.
            OSError: the file cannot be written.
            SendError: a component is neither a number, text, a boolean nor None, or UTF-8 cannot encode it.
                An existing file is unchanged.
        """
        names = _checked_names(columns)
        plain = arguments.flag("plain", plain)
        with create_file(path) as file:
            file.write(",".join(map(field_of, names)).encode() + b"\n")
            for number, datapoint in enumerate(
                with_progress(as_dataflow(df), f"writing {os.path.basename(path)}")
            ):
                values = _components(datapoint, names, number)
                try:
                    row = ",".join([_field(name, value, plain) for name, value in zip(names, values)])
                    if not row:
                        raise SendError(f"component {names[0]!r}: a single None would be a blank line")
                except SendError as error:
                    raise SendError(f"{os.fspath(path)}, datapoint {number}, {error}") from error
                file.write(row.encode() + b"\n")

    @staticmethod
    def load(path: URL, shuffle: bool = False) -> CSVData:
        """Returns `CSVData(path, shuffle=shuffle, typed=True)`."""
        return CSVData(path, shuffle=shuffle, typed=True)


def _checked_names(columns: Sequence[str]) -> list[str]:
    names = list(columns)
    if not names or len(set(names)) < len(names) or not all(type(name) is str for name in names):
        raise ArgumentError(
            f"columns is a list of distinct strings for the header; received {shown(names, 100)}"
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"columns has a name that UTF-8 cannot encode: {error}") from error
    return names


def _components(datapoint: Any, names: list[str], number: int) -> list[Any]:
    if isinstance(datapoint, dict) and datapoint.keys() == set(names):
        return [datapoint[name] for name in names]
    if not isinstance(datapoint, (list, tuple)) or len(datapoint) != len(names):
        raise ArgumentError(f"datapoint {number} must have {names}; received {shown(datapoint, 100)}")
    return list(datapoint)


def _field(name: str, value: Any, plain: bool) -> str:
    try:
        return field_of(plain_scalar(value) if plain else value)
    except (TypeError, ValueError) as error:
        raise SendError(f"component {name!r}: CSV cannot hold {shown(value)}: {error}") from error
