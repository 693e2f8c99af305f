"""NumPy's names and methods that NumPy 1.24, 2.0 and 2.3 removed."""

from __future__ import annotations

import builtins
import ctypes
import gc
from typing import Any

import numpy as np

from .names import numpy_table

__all__ = ["add_to_numpy"]

_TABLE = numpy_table()
_NAMES: dict[str, Any] = {
    **{old: getattr(builtins, new) for old, new in _TABLE["python"].items()},
    **{old: getattr(np, new) for old, new in _TABLE["numpy"].items()},
    "sctypes": {kind: [getattr(np, name) for name in names] for kind, names in _TABLE["sctypes"].items()}
    | {"others": [bool, object, bytes, str, np.void]},
    "in1d": lambda first, second, **options: np.isin(np.ravel(first), second, **options),
}
_METHODS: dict[str, Any] = {
    "tostring": np.ndarray.tobytes,
    "ptp": np.ptp,
    "newbyteorder": lambda array, order="S": array.view(array.dtype.newbyteorder(order)),
}


def add_to_numpy() -> list[str]:
    """Adds the names and methods that NumPy lacks, and returns the names."""
    missing = [name for name in _NAMES if name not in vars(np)]
    for name in missing:
        setattr(np, name, _NAMES[name])
    # Python refuses to set attributes of a type that is written in C, so they go to its dict.
    (methods,) = [each for each in gc.get_referents(vars(np.ndarray)) if isinstance(each, dict)]
    methods.update({name: method for name, method in _METHODS.items() if name not in methods})
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(np.ndarray))
    return missing
