"""`install`: Tensorpack's modules, TensorFlow 1's interface and NumPy's old names, in this process."""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._dry_run import dry_run_steps, open_no_windows
from ._finder import VERSION, TensorpackFinder, refuse_the_real_one
from ._old_methods import add_to_augmentors, add_to_flows

__all__ = ["install"]

# Names that NumPy 1.24 and 2.0 removed, with the values that NumPy's release notes give.
_OF_NUMPY: dict[str, Any] = {
    **{kind.__name__: kind for kind in (bool, int, float, complex, object, str)},
    "long": int,
    "unicode": str,
    "float_": np.float64,
    "complex_": np.complex128,
    "string_": np.bytes_,
    "unicode_": np.str_,
    "Inf": np.inf,
    "Infinity": np.inf,
    "NaN": np.nan,
    "alltrue": np.all,
    "sometrue": np.any,
    "product": np.prod,
    "cumproduct": np.cumprod,
    "round_": np.round,
    "row_stack": np.vstack,
    "sctypes": {
        "int": [np.int8, np.int16, np.int32, np.int64],
        "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
        "float": [np.float16, np.float32, np.float64, np.longdouble],
        "complex": [np.complex64, np.complex128, np.clongdouble],
        "others": [bool, object, bytes, str, np.void],
    },
    "in1d": lambda first, second, **options: np.isin(np.ravel(first), second, **options),
}
_CHILDREN = str(Path(__file__).parent / "children")
# Code below these directories is not part of the user's program.
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("stdlib", "purelib", "platlib")}
)
_import = builtins.__import__


def install(*, report: bool = True) -> None:
    """Installs Tensorpack's modules, TensorFlow 1's interface and NumPy's old names in this process.

    Afterwards `import tensorpack` imports the modules of this package. `import tensorflow as tf`, in a file
    outside of the installed packages, imports TensorFlow 1's interface. NumPy has `np.bool` and `np.int`
    again, and SciPy `scipy.interpolate.interp2d`. Child processes get the same changes. A second call does
    nothing.

    Args:
        report: print one line for each change.

    Raises:
        InstallError: the real Tensorpack is installed, or already imported.

    Example:
        ```python
        import towerpack_compat
        towerpack_compat.install()

        from tensorpack import *
        ```
    """
    if any(isinstance(finder, TensorpackFinder) for finder in sys.meta_path):
        return
    refuse_the_real_one()
    add_to_flows()
    add_to_augmentors()
    sys.meta_path.insert(0, TensorpackFinder())
    missing = [name for name in _OF_NUMPY if name not in vars(np)]
    for name in missing:
        setattr(np, name, _OF_NUMPY[name])
    builtins.__import__ = _import_for_users
    _prepare_children()
    if dry_run_steps() is not None:
        open_no_windows()
    if report:
        print(f"towerpack-compat: `tensorpack` is Tensorpack {VERSION}'s interface over Towerpack")
        print("towerpack-compat: `tensorflow` is TensorFlow 1's interface, except in installed packages")
        if missing:
            print(f"towerpack-compat: NumPy has {', '.join(missing)} again")


def _prepare_children() -> None:
    os.environ["TOWERPACK_COMPAT"] = "1"
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if _CHILDREN not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join([_CHILDREN, *places])


def _import_for_users(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Imports a module; for a user's file, TensorFlow with version 1's interface, SciPy with `interp2d`."""
    package = "" if level else name.partition(".")[0]
    if package == "tensorflow" and _is_of_user(globals):
        from .tensorflow1 import import_for_user  # imports TensorFlow, so only on demand

        return import_for_user(name, fromlist or ())
    found = _import(name, globals, locals, fromlist or (), level)
    if package == "scipy" and _is_of_user(globals):
        importlib.import_module("towerpack_compat._old_scipy")
    return found


def _is_of_user(globals: Mapping[str, Any] | None) -> bool:
    globals = globals or {}
    if globals.get("__name__", "").partition(".")[0] in _OWN:
        return False
    file = globals.get("__file__")
    if file is None:  # a notebook, or an interactive session
        return globals.get("__name__") == "__main__"
    return not os.path.realpath(file).startswith(_LIBRARIES)


# In an editable installation, their files lie outside of the installed packages.
_OWN = {
    f"towerpack_{wheel}" for wheel in ("compat", "dataflow", "inputsource", "layers", "callbacks", "trainers")
}
