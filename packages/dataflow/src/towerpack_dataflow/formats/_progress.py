"""Progress of what takes long, on standard error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["with_progress"]


def with_progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Yields `items`, and shows on standard error how many there were.

    Args:
        items: their number is shown beside it if they have a `len()`.
        what: stands in front of the bar, such as the name of a file.
    """
    try:
        from tqdm import tqdm
    except ImportError:  # it comes with the extras of formats whose files are long in the making
        return items
    try:
        total = len(items)  # type: ignore[arg-type]
    except TypeError:
        total = None
    # Without a terminal, a line in each half minute at most.
    bar: Iterable[Any] = tqdm(items, desc=what, total=total, mininterval=0.5, leave=False, disable=None)
    return bar
