"""`SVMLightData`: rows of features in the text format of SVMlight and LIBSVM."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import FormatError, extra
from ...storage import URL, local_path
from .._record_flow import RecordFlow, Records

__all__ = ["SVMLightData"]

_log = logging.getLogger("towerpack_dataflow")


@final
class SVMLightData(RecordFlow):
    """Yields rows of features in the format of SVMlight; addressable. The file is held in memory, sparse.

    A datapoint is `[features, label]`: a float64 array of length `n_features`, and a float.

    A file contains neither the number of features nor its first index, 0 or 1. Set `n_features`, so that rows
    of several files, such as those for training and for tests, have the same features.

    Args:
        path: path of the file.
        shuffle: whether each epoch draws its order.
        n_features: number of features; by default, derived from the largest index in the file, which is
            logged.
        zero_based: whether the first feature has the index 0. The tools of SVMlight and LIBSVM start at 1.

    Raises:
        ArgumentError: `n_features` is not positive.
        FormatError: the file is damaged or of another format, or has an index outside the range of
            `n_features` and `zero_based`.
        ImportError: scikit-learn is missing.
        OSError: the file is missing or not readable.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "rows.svm"
        >>> _ = path.write_text("1 1:0.5 3:2.0\\n-1 2:1.0\\n")
        >>> list(SVMLightData(path, shuffle=False, n_features=3))
        [[array([0.5, 0. , 2. ]), 1.0], [array([0., 1., 0.]), -1.0]]
    """

    def __init__(
        self, path: URL, shuffle: bool = True, n_features: int | None = None, zero_based: bool = False
    ) -> None:
        """Reads the file."""
        width = None if n_features is None else arguments.count("n_features", n_features)
        rows = _SparseRows(local_path(path), width, arguments.flag("zero_based", zero_based))
        super().__init__(rows, shuffle)


@final
class _SparseRows(Records):
    def __init__(self, path: str, width: int | None, zero_based: bool) -> None:
        with extra("datasets", f"reading {path}"):
            from sklearn.datasets import load_svmlight_file
        try:
            # Read unchanged: the library guesses the first index, and subtracts 1 even from a 0.
            features, labels = load_svmlight_file(path, zero_based=True)
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise FormatError(f"{path} is not an SVMlight file, or is damaged: {error}") from error
        features.indices -= 0 if zero_based else 1
        self._width = _checked_width(path, features.indices, width, zero_based)
        self._begins, self._columns, self._values = features.indptr, features.indices, features.data
        self._labels = labels.tolist()
        self.__qualname__ = f"{os.path.basename(path)} of {len(self)} rows"

    def __len__(self) -> int:
        return len(self._labels)

    def several(self, indices: Sequence[int]) -> Iterator[list[Any]]:
        return map(self._row, indices)

    def _row(self, index: int) -> list[Any]:
        row = np.zeros(self._width)
        index_range = slice(self._begins[index], self._begins[index + 1])
        row[self._columns[index_range]] = self._values[index_range]
        return [row, self._labels[index]]


def _checked_width(path: str, columns: np.ndarray, width: int | None, zero_based: bool) -> int:
    """Returns the number of features after checking all columns."""
    if columns.size and columns.min() < 0:
        raise FormatError(f"{path} has the index 0: it counts features from 0; pass zero_based=True")
    found = int(columns.max()) + 1 if columns.size else 0
    if width is None:
        _log.warning(
            "%s has %d features, by its largest index; pass n_features, so that rows of other files "
            "have the same number",
            path,
            found,
        )
        return found
    if found > width:
        raise FormatError(
            f"{path} has the index {found - zero_based}, but the last one for n_features={width} is "
            f"{width - zero_based}"
        )
    return width
