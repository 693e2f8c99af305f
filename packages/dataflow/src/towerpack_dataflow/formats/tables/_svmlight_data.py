"""`SVMLightData`: rows of features in the text format of SVMlight and LIBSVM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..._errors import FormatError, extra
from ...storage import URL, local_path
from .._record_flow import RecordFlow

__all__ = ["SVMLightData"]


@final
class SVMLightData(RecordFlow):
    """Yields rows of features in the format of SVMlight; addressable. The file is kept in memory, sparse.

    A datapoint is `[features, label]`: float64 of the number of features, and a float.

    Args:
        path: of the file.
        shuffle: whether each epoch has an order of its own.

    Raises:
        FormatError: the file is damaged or of another format.
        ImportError: scikit-learn is missing.
        OSError: the file is missing, or may not be read.
    """

    _holds = ()
    _steady = True

    def __init__(self, path: URL, shuffle: bool = True) -> None:
        """Reads the file."""
        super().__init__(_SparseRows(local_path(path)), shuffle)


@final
class _SparseRows(Sequence[Any]):
    def __init__(self, path: str) -> None:
        with extra("datasets", f"reading {path}"):
            from sklearn.datasets import load_svmlight_file
        try:
            features, labels = load_svmlight_file(path)
        except (ValueError, IndexError, TypeError) as error:
            raise FormatError(f"{path} is no SVMlight file, or is damaged: {error}") from error
        self._width = features.shape[1]
        self._begins, self._columns, self._values = features.indptr, features.indices, features.data
        self._labels = labels.tolist()
        self.__qualname__ = f"{os.path.basename(path)} of {len(self)} rows"

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: Any) -> list[Any]:
        row = np.zeros(self._width)
        stretch = slice(self._begins[index], self._begins[index + 1])
        row[self._columns[stretch]] = self._values[stretch]
        return [row, self._labels[index]]
