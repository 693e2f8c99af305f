"""Progress bars for long operations, on standard error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["with_progress"]


def with_progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Yields `items` and shows their count on standard error.

    Args:
        items: the items; their total is shown as well if they have a `len()`.
        what: label of the bar, such as the name of a file.
    """
    try:
        from tqdm import tqdm
    except ImportError:  # installed with the extras of formats with long conversions
        return items
    try:
        total = len(items)  # type: ignore[arg-type]
    except TypeError:
        total = None
    # Without a terminal, at most one line per half minute.
    bar: Iterable[Any] = tqdm(items, desc=what, total=total, mininterval=0.5, leave=False, disable=None)
    return bar
