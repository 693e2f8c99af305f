"""Fast conversion of values to the dict of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["row_maker"]

# A dict display takes a third of the time of `dict(zip(...))`, and needs a known number of columns. For
# tables with more columns, the cost of their values hides the difference.
_MAKERS: Final[Mapping[int, Callable[..., Callable[..., dict[str, Any]]]]] = {
    1: lambda a: lambda p: {a: p},
    2: lambda a, b: lambda p, q: {a: p, b: q},
    3: lambda a, b, c: lambda p, q, r: {a: p, b: q, c: r},
    4: lambda a, b, c, d: lambda p, q, r, s: {a: p, b: q, c: r, d: s},
    5: lambda a, b, c, d, e: lambda p, q, r, s, t: {a: p, b: q, c: r, d: s, e: t},
    6: lambda a, b, c, d, e, f: lambda p, q, r, s, t, u: {a: p, b: q, c: r, d: s, e: t, f: u},
    7: lambda a, b, c, d, e, f, g: lambda p, q, r, s, t, u, v: {a: p, b: q, c: r, d: s, e: t, f: u, g: v},
    8: lambda a, b, c, d, e, f, g, h: (
        lambda p, q, r, s, t, u, v, w: {a: p, b: q, c: r, d: s, e: t, f: u, g: v, h: w}
    ),
}


def row_maker(names: Sequence[str]) -> Callable[..., dict[str, Any]]:
    """Returns a function that creates a dict from the values of a row.

    Args:
        names: names of the columns, in the order of the values.

    Returns:
        The function, which takes one value per name.

    Example:
        >>> row_maker(["x", "y"])(1, 2)
        {'x': 1, 'y': 2}
    """
    make = _MAKERS.get(len(names))
    return make(*names) if make else lambda *values: dict(zip(names, values))
