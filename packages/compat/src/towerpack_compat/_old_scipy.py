"""`scipy.interpolate.interp2d`, which SciPy 1.14 removed, with the same behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import interpolate

__all__ = ["interp2d"]


class interp2d:
    """Interpolates a function of two variables by splines.

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
        x, y = (each if assume_sorted else np.sort(each) for each in (np.atleast_1d(x), np.atleast_1d(y)))
        found = np.atleast_2d(interpolate.bisplev(x, y, self.tck, dx, dy)).T
        outside = [(new < old.min()) | (new > old.max()) for new, old in ((x, self.x), (y, self.y))]
        if self.bounds_error and np.concatenate(outside).any():
            raise ValueError(f"Values out of range; x must be in {self.x!r}, y in {self.y!r}")
        if self.fill_value is not None:
            found[outside[1][:, np.newaxis] | outside[0]] = self.fill_value
        return np.array(found[0] if len(found) == 1 else found)


interpolate.interp2d = interp2d
