"""The savers among the callbacks of a run: where they write, and a checkpoint by them at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..callback import Callback, ProxyCallback
from ._best_saver import BestSaver
from ._model_saver import ModelSaver

__all__ = ["checkpoint_directories", "save_now"]


def save_now(callbacks: Iterable[Callback]) -> bool:
    """Writes a checkpoint of this moment by all `ModelSaver`s among callbacks; see `ModelSaver.save_now`.

    Args:
        callbacks: the callbacks of a run; savers inside others, such as `PeriodicTrigger`, are found.

    Returns:
        Whether there is a saver among them.
    """
    savers = [saver for saver in map(_innermost, callbacks) if isinstance(saver, ModelSaver)]
    for saver in savers:
        saver.save_now()
    return bool(savers)


def checkpoint_directories(callbacks: Iterable[Callback]) -> set[Path]:
    """Returns the directories that savers among callbacks write to, so that a loop may lock them.

    Args:
        callbacks: the callbacks of a run, set up; savers inside others are found.
    """
    innermost = map(_innermost, callbacks)
    return {saver.directory for saver in innermost if isinstance(saver, ModelSaver | BestSaver)}


def _innermost(callback: Callback) -> Callback:
    while isinstance(callback, ProxyCallback):
        callback = callback.callback
    return callback
