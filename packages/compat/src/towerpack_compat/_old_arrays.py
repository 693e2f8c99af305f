"""Names and methods that NumPy has removed since 1.23, and `interp2d`, which SciPy has removed since 1.14."""

from __future__ import annotations

import builtins
import ctypes
import gc
from typing import Any

import numpy as np

from .names import numpy_table

__all__ = ["NAMES", "add_to_numpy", "add_to_scipy", "interp2d"]

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


def add_to_scipy() -> None:
    """Adds the class to `scipy.interpolate`."""
    from scipy import interpolate

    interpolate.interp2d = interp2d


class interp2d:
    """Interpolates a function of two variables by splines, as `scipy.interpolate.interp2d` did.

    Args:
        x: the positions of the columns, shape (columns,); or the first coordinates of points.
        y: the positions of the rows, shape (rows,); or the second coordinates of points.
        z: the values, shape (rows, columns); or the values of the points.
        kind: "linear", "cubic" or "quintic".
        copy: without effect.
        bounds_error: whether a position outside of the range of `x` and `y` raises an error.
        fill_value: the value outside of the range; None: the value of the nearest position inside.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        kind: str = "linear",
        copy: bool = True,
        bounds_error: bool = False,
        fill_value: Any = None,
    ) -> None:
        from scipy import interpolate  # here, since NumPy alone may be installed

        self.x, self.y, self.z = np.ravel(x), np.ravel(y), np.asarray(z)
        self.bounds_error, self.fill_value = bounds_error, fill_value
        degrees = dict.fromkeys(("kx", "ky"), {"linear": 1, "cubic": 3, "quintic": 5}[kind])
        if self.z.size == self.x.size * self.y.size:
            columns, rows = np.argsort(self.x), np.argsort(self.y)
            grid = self.z.reshape(self.y.size, self.x.size).T[np.ix_(columns, rows)]
            spline = interpolate.RectBivariateSpline(self.x[columns], self.y[rows], grid, **degrees)
            self.tck = (*spline.tck, *degrees.values())
        else:
            self.tck = interpolate.bisplrep(self.x, self.y, self.z.ravel(), **degrees, s=0.0)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, assume_sorted: bool = False) -> Any:
        """Returns the values, or derivatives, at all pairs of positions: shape (len(y), len(x)).

        Raises:
            ValueError: with `bounds_error`, a position is outside.
        """
        from scipy import interpolate

        x, y = (each if assume_sorted else np.sort(each) for each in (np.atleast_1d(x), np.atleast_1d(y)))
        found = np.atleast_2d(interpolate.bisplev(x, y, self.tck, dx, dy)).T
        outside = [(new < old.min()) | (new > old.max()) for new, old in ((x, self.x), (y, self.y))]
        if self.bounds_error and np.concatenate(outside).any():
            raise ValueError(f"Values out of range; x must be in {self.x!r}, y in {self.y!r}")
        if self.fill_value is not None:
            found[outside[1][:, np.newaxis] | outside[0]] = self.fill_value
        return np.array(found[0] if len(found) == 1 else found)
