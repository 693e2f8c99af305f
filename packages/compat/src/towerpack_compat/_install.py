"""`install`: Tensorpack's modules, TensorFlow 1's interface and NumPy's old names, in this process."""

from __future__ import annotations

import builtins
import functools
import operator
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

import towerpack_dataflow
from towerpack_dataflow.augment import CropTransform, ImageAugmentor

from ._dry_run import dry_run_steps, open_no_windows
from ._finder import VERSION, TensorpackFinder, refuse_the_real_one
from ._old_arrays import add_to_numpy, add_to_scipy

__all__ = ["add_to_augmentors", "add_to_flows", "install", "is_of_user"]


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
    missing = add_to_numpy()
    builtins.__import__ = _import_for_users
    _prepare_children()
    if dry_run_steps() is not None:
        open_no_windows()
    if report:
        print(f"towerpack-compat: `tensorpack` is Tensorpack {VERSION}'s interface over Towerpack")
        print("towerpack-compat: `tensorflow` is TensorFlow 1's interface, except in installed packages")
        if missing:
            print(f"towerpack-compat: NumPy has {', '.join(missing)} again")
        if horovod := PathFinder.find_spec("horovod"):
            print(f"towerpack-compat: `horovod` exchanges over MPI, and {horovod.origin} is not used")


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
    if package == "tensorflow" and is_of_user(globals):
        from .tensorflow1 import import_for_user  # imports TensorFlow, so only on demand

        return import_for_user(name, fromlist or ())
    found = _import(name, globals, locals, fromlist or (), level)
    if package == "scipy" and is_of_user(globals):
        add_to_scipy()
    return found


def is_of_user(globals: Mapping[str, Any] | None) -> bool:
    """Returns whether the code with these global names belongs to the user's program."""
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


@functools.cache
def add_to_flows() -> None:
    """Adds the methods `size` and `get_data` to `DataFlow`; a subclass may define them instead."""
    kind: Any = towerpack_dataflow.DataFlow

    def __init_subclass__(cls: Any, /, **arguments: Any) -> None:
        for old, new in (("get_data", "__iter__"), ("size", "__len__")):
            if old in vars(cls) and new not in vars(cls):
                setattr(cls, new, vars(cls)[old])
        super(kind, cls).__init_subclass__(**arguments)

    kind.__init_subclass__ = classmethod(__init_subclass__)
    kind.get_data = lambda self: iter(self)
    kind.size = lambda self: len(self)


@functools.cache
def add_to_augmentors() -> None:
    """Adds methods to augmentors for transforms as parameters, and Tensorpack's names to transforms.

    Random ranges are float32, so that the product with a float32 image keeps the dtype.
    """
    kind: Any = ImageAugmentor
    crop: Any = CropTransform
    crop.y0, crop.x0 = (property(operator.attrgetter(name)) for name in ("h0", "w0"))
    uniform = kind._rand_range
    kind._rand_range = lambda self, *bounds, **named: np.float32(uniform(self, *bounds, **named))

    def augment_return_params(self: Any, d: Any) -> tuple[Any, Any]:
        transform = self.get_transform(d)
        return transform.apply_image(d), transform

    kind.augment_return_params = augment_return_params
    kind.augment_with_params = lambda self, d, param: param.apply_image(d)
    kind.augment_coords = lambda self, coords, param: param.apply_coords(coords)
