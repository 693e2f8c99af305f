"""The actions of the episodes under way, from which a resumed run makes them again."""

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
    """Remembers every action since each environment's episode began.

    Args:
        parts: the arrays of the action space.
        num_envs: how many environments.
    """

    def __init__(self, parts: Sequence[Part], num_envs: int) -> None:
        """Begins without actions."""
        self._rows = [np.empty((_FEWEST, num_envs, *part.shape), part.dtype) for part in parts]
        self._sent = np.zeros((_FEWEST, num_envs), np.bool_)
        self._begin = np.zeros(num_envs, np.int64)
        self._length = 0

    def append(self, envs: Any, arrays: Sequence[np.ndarray]) -> None:
        """Notes the actions that some environments are sent at a time.

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
        """Forgets the actions of these environments: new episodes have begun."""
        self._begin[envs] = self._length

    def fill(self, actions: Sequence[Sequence[np.ndarray]]) -> None:
        """Takes over the actions of all environments' episodes, and forgets its own."""
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
        """Returns the actions of an environment's episode, as arrays."""
        chosen = slice(self._begin[env], self._length)
        sent = self._sent[chosen, env]
        return [rows[chosen, env][sent] for rows in self._rows]

    def _make_room(self) -> None:
        """Drops actions that no episode needs; doubles the memory if most are needed."""
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
    """Returns the actions that `packed_actions` made text of.

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
            f"the actions of this state are not of this action space, or damaged: {error}"
        ) from error
