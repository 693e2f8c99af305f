"""NumPy's names and methods that NumPy removed since 1.23."""

from __future__ import annotations

import builtins
import ctypes
import gc
from typing import Any

import numpy as np

from .names import numpy_table

__all__ = ["NAMES", "add_to_numpy"]

_TABLE = numpy_table()
NAMES: dict[str, Any] = {
    **{old: getattr(builtins, new) for old, new in _TABLE["python"].items()},
    **{old: getattr(np, new, None) for old, new in _TABLE["numpy"].items()},
    "sctypes": {kind: [getattr(np, name) for name in names] for kind, names in _TABLE["sctypes"].items()}
    | {"others": [bool, object, bytes, str, np.void]},
    "asfarray": lambda a, dtype=float: np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else float),
    "asscalar": lambda a: np.asarray(a).item(),
    "in1d": lambda first, second, **options: np.isin(np.ravel(first), second, **options),
}
_METHODS: dict[str, Any] = {
    "tostring": np.ndarray.tobytes,
    "ptp": np.ptp,
    "newbyteorder": lambda array, order="S": array.view(array.dtype.newbyteorder(order)),
}


def add_to_numpy() -> list[str]:
    """Adds the names and methods that NumPy lacks, and returns the names."""
    missing = [name for name in NAMES if name not in vars(np)]
    for name in missing:
        setattr(np, name, NAMES[name])
    # Python refuses to set attributes of a type that is written in C, so they go to its dict.
    (methods,) = [each for each in gc.get_referents(vars(np.ndarray)) if isinstance(each, dict)]
    methods.update({name: method for name, method in _METHODS.items() if name not in methods})
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(np.ndarray))
    return missing
