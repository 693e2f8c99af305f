"""Where augmentors take random numbers from: the datapoint's own generator, while a flow makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

__all__ = ["active_rng", "drawing_from"]

_ACTIVE: ContextVar[np.random.RandomState | None] = ContextVar("towerpack_augment_rng", default=None)


@contextmanager
def drawing_from(rng: np.random.Generator | np.random.RandomState) -> Iterator[np.random.RandomState]:
    """Makes `self.rng` of all augmentors the given one, in this thread and in this block.

    The flows of this package do so for each datapoint. A function of one's own that calls augmentors does it
    with the generator that `MapData(..., rng=True)` gives it; its results are then the same in any process.

    Args:
        rng: a generator, of which augmentors see a `RandomState` over the same bits, or a `RandomState`.

    Example:
        >>> from towerpack_dataflow.augment import RandomCrop
        >>> def crop(seed):
        ...     with drawing_from(np.random.default_rng(seed)):
        ...         return RandomCrop(2).augment(np.arange(100, dtype=np.uint8).reshape(10, 10)).tolist()
        >>> crop(1) == crop(1)
        True
    """
    state = rng if isinstance(rng, np.random.RandomState) else np.random.RandomState(rng.bit_generator)
    token = _ACTIVE.set(state)
    try:
        yield state
    finally:
        _ACTIVE.reset(token)


def active_rng() -> np.random.RandomState | None:
    """Returns what `drawing_from` has set in this thread, or None."""
    return _ACTIVE.get()
