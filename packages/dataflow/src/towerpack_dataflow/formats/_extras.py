"""What formats need beside NumPy: imported where it is used, and named where it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["extra", "with_progress"]


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Names the extra to install if an import in the block fails.

    Args:
        name: of the extra of this wheel.
        what: is not possible without it, such as "reading LMDB files".

    Raises:
        ImportError: the block raises one.

    Example:
        >>> with extra("lmdb", "reading LMDB files"):
        ...     import a_package_that_is_not_there
        Traceback (most recent call last):
            ...
        ImportError: reading LMDB files needs the extra [lmdb]: pip install 'towerpack-dataflow[lmdb]'
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs the extra [{name}]: pip install 'towerpack-dataflow[{name}]'"
        ) from error


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
