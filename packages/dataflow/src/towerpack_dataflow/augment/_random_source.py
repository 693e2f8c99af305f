"""The random numbers of augmentors: the generator of the current datapoint in a flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

__all__ = ["active_rng", "drawing_from"]

_ACTIVE: ContextVar[np.random.RandomState | None] = ContextVar("towerpack_augment_rng", default=None)


@contextmanager
def drawing_from(rng: np.random.Generator | np.random.RandomState) -> Iterator[np.random.RandomState]:
    """Sets `self.rng` of all augmentors, in this thread and in this block.

    The flows of this package do so for each datapoint. A custom function that calls augmentors uses it with
    the generator from `MapData(..., rng=True)`; its results are then the same in any process.

    Args:
        rng: a generator, passed to augmentors as a `RandomState` over the same bits; or a `RandomState`.

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
    """Returns the random numbers set by `drawing_from` in this thread, or None."""
    return _ACTIVE.get()
