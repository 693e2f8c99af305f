"""The actions of current episodes, which a resumed run repeats."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .._errors import StateError
from ._space_arrays import Part

__all__ = ["ActionLog", "packed_actions", "unpacked_actions"]

_FEWEST = 64


@final
class ActionLog:
    """Records the actions of each environment's current episode.

    Args:
        parts: the arrays of the action space.
        num_envs: number of environments.
    """

    def __init__(self, parts: Sequence[Part], num_envs: int) -> None:
        """Starts without actions."""
        self._rows = [np.empty((_FEWEST, num_envs, *part.shape), part.dtype) for part in parts]
        self._sent = np.zeros((_FEWEST, num_envs), np.bool_)
        self._begin = np.zeros(num_envs, np.int64)
        self._length = 0

    def append(self, envs: Any, arrays: Sequence[np.ndarray]) -> None:
        """Records one action for each of some environments.

        Args:
            envs: their numbers, or a slice.
            arrays: a batch of actions, as arrays.
        """
        if self._length == len(self._sent):
            self._make_room()
        at = self._length
        for rows, array in zip(self._rows, arrays):
            rows[at, envs] = array
        self._sent[at] = False
        self._sent[at, envs] = True
        self._length += 1

    def restart(self, envs: Any) -> None:
        """Drops the actions of these environments when new episodes begin."""
        self._begin[envs] = self._length

    def fill(self, actions: Sequence[Sequence[np.ndarray]]) -> None:
        """Replaces the recorded actions of all environments."""
        lengths = [len(arrays[0]) for arrays in actions]
        size = max(_FEWEST, *lengths)
        self._rows = [np.empty((size, *rows.shape[1:]), rows.dtype) for rows in self._rows]
        self._sent = np.zeros((size, len(actions)), np.bool_)
        for env, (arrays, length) in enumerate(zip(actions, lengths)):
            for rows, array in zip(self._rows, arrays):
                rows[:length, env] = array
            self._sent[:length, env] = True
        self._begin[:] = 0
        self._length = max(lengths)

    def actions(self, env: int) -> list[np.ndarray]:
        """Returns the actions of an environment's current episode, as arrays."""
        chosen = slice(self._begin[env], self._length)
        sent = self._sent[chosen, env]
        return [rows[chosen, env][sent] for rows in self._rows]

    def _make_room(self) -> None:
        """Drops obsolete actions; doubles the memory if most are still needed."""
        first = int(self._begin.min())
        kept = self._length - first
        size = len(self._sent) * (2 if 2 * kept > len(self._sent) else 1)
        self._rows = [_moved(rows, first, self._length, size) for rows in self._rows]
        self._sent = _moved(self._sent, first, self._length, size)
        self._begin -= first
        self._length = kept


def _moved(rows: np.ndarray, first: int, end: int, size: int) -> np.ndarray:
    moved = np.empty((size, *rows.shape[1:]), rows.dtype)
    moved[: end - first] = rows[first:end]
    return moved


def packed_actions(arrays: Sequence[np.ndarray]) -> list[str]:
    """Returns actions as text, exactly.

    Example:
        >>> part = Part("", (), np.dtype(np.int64))
        >>> unpacked_actions(packed_actions([np.arange(3)]), [part])
        [array([0, 1, 2])]
    """
    return [base64.b64encode(zlib.compress(array.tobytes())).decode() for array in arrays]


def unpacked_actions(texts: Sequence[str], parts: Sequence[Part]) -> list[np.ndarray]:
    """Returns the actions encoded by `packed_actions`.

    Raises:
        StateError: the text is damaged, or of another action space.
    """
    try:
        raws = [zlib.decompress(base64.b64decode(text)) for text in texts]
        return [
            np.frombuffer(raw, part.dtype).reshape(-1, *part.shape)
            for raw, part in zip(raws, parts, strict=True)
        ]
    except (ValueError, TypeError, zlib.error) as error:
        raise StateError(
            f"the actions of this state belong to another action space, or are damaged: {error}"
        ) from error
