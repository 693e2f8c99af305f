"""Finds the origin of non-finite values.

`TerminateOnNaN` stops a training before such a value reaches the weights, reports the op that made it, and
writes a folder. `python -m towerpack_callbacks.nonfinite FOLDER` then finds the same op without the model's
code.
"""

import warnings
from typing import Any

from ._terminate_on_nan import NonFiniteOrigin, TerminateOnNaN, find_origin, replay

__all__ = ["NonFiniteOrigin", "TerminateOnNaN", "find_origin", "replay"]


def __getattr__(name: str) -> Any:
    if name == "Origin":
        warnings.warn(
            f"{__name__}.Origin is deprecated; write {__name__}.NonFiniteOrigin",
            DeprecationWarning,
            stacklevel=2,
        )
        return NonFiniteOrigin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
