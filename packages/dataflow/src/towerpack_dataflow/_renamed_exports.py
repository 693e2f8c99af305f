"""Old names of exports, which work with a `DeprecationWarning`.

`docs/stability.md` has the releases that may remove them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["renamed_exports"]


def renamed_exports(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` for the old names of its exports.

    Args:
        module: the name of the module.
        new_names: the new name of each old one.
    """

    def look_up(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is deprecated; use {new_names[name]}", DeprecationWarning, stacklevel=2
        )
        return getattr(sys.modules[module], new_names[name])

    return look_up
