"""The savers among the callbacks of a run: their directories, and an immediate checkpoint by all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..callback import Callback, ProxyCallback
from ._best_saver import BestSaver
from ._model_saver import ModelSaver

__all__ = ["checkpoint_directories", "save_now"]


def save_now(callbacks: Iterable[Callback]) -> bool:
    """Writes a checkpoint of the current step with each `ModelSaver`; see `ModelSaver.save_now`.

    Args:
        callbacks: the callbacks of a run, including savers wrapped in others, such as `PeriodicTrigger`.

    Returns:
        Whether the callbacks include a saver.
    """
    savers = [saver for saver in map(_innermost, callbacks) if isinstance(saver, ModelSaver)]
    for saver in savers:
        saver.save_now()
    return bool(savers)


def checkpoint_directories(callbacks: Iterable[Callback]) -> set[Path]:
    """Returns the output directories of the savers, so that a loop may lock them.

    Args:
        callbacks: the callbacks of a run, after set-up, including savers wrapped in others.
    """
    innermost = map(_innermost, callbacks)
    return {saver.directory for saver in innermost if isinstance(saver, ModelSaver | BestSaver)}


def _innermost(callback: Callback) -> Callback:
    while isinstance(callback, ProxyCallback):
        callback = callback.callback
    return callback
