"""`TransitionReader`: assembles sampled transitions of n steps with stacked frames as a `TransitionBatch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ..batch._buffer_pool import BufferPool
from ._array_specs import ArraySpec, Nested, named, nested
from ._memory_layout import TERMINATED
from ._sampling import EpisodeLinks

__all__ = ["BatchArrays", "TransitionBatch", "TransitionReader"]


class TransitionBatch(NamedTuple):
    """Transitions of n steps, ready for an update; the first axis of all arrays is the batch.

    The target of a value is `reward + discount * value(next_observation)`, in all cases: `discount` is gamma
    to the power of the number of steps, or 0 after a termination. A truncation is not a termination, so the
    value of its last observation counts.

    Attributes:
        observation: observation before the first step; an array, or a dict of arrays. Stacked frames have a
            separate axis after the batch axis, oldest first.
        action: action of the first step.
        reward: float32, the discounted sum of the rewards of all steps.
        next_observation: observation after the last step.
        discount: float32.
        weight: float32, a factor for the loss that restores the mean of uniform sampling; at most 1.
        indices: int64, identify the transitions for `update_priorities`.

    Example:
        ```python
        batch = memory.sample(32)
        target = batch.reward + batch.discount * value(batch.next_observation)
        ```
    """

    observation: Any  # an array or a dict of arrays; a union would make each use an error for type checkers
    action: Any
    reward: np.ndarray
    next_observation: Any
    discount: np.ndarray
    weight: np.ndarray
    indices: np.ndarray


@final
class BatchArrays:
    """Allocates the arrays of batches of one memory, in reused memory; checks arrays passed by callers."""

    def __init__(self, observation: Mapping[str, ArraySpec], action: Mapping[str, ArraySpec]) -> None:
        """Stores the specs of one observation, with all its frames, and one action."""
        single, double = (ArraySpec((), np.dtype(name)) for name in ("float32", "int64"))
        self._fields: dict[str, Mapping[str, ArraySpec]] = {
            "observation": observation,
            "action": action,
            "reward": {"": single},
            "next_observation": observation,
            "discount": {"": single},
            "weight": {"": single},
            "indices": {"": double},
        }
        self._pool = BufferPool()

    def allocate(self, size: int) -> TransitionBatch:
        """Returns arrays for a batch, with arbitrary contents."""
        made = {}
        for field, specs in self._fields.items():
            wanted = [((size, *spec.shape), spec.dtype) for spec in specs.values()]
            made[field] = nested(dict(zip(specs, self._pool.allocate(wanted))))
        return TransitionBatch(**made)

    def check(self, batch: Any, size: int) -> TransitionBatch:
        """Returns the arrays if a batch can be written into them.

        Raises:
            ArgumentError: the arrays have another form.
        """
        if not isinstance(batch, TransitionBatch):
            raise ArgumentError(
                f"out is a TransitionBatch, such as a result of sample(); received {type(batch).__name__}"
            )
        for field, specs in self._fields.items():
            parts = named(f"out.{field}", getattr(batch, field), specs)
            for key, spec in specs.items():
                _check_target(f"out.{field}", parts[key], (size, *spec.shape), spec.dtype)
        return batch


def _check_target(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    is_array = isinstance(array, np.ndarray)
    if not is_array or array.shape != shape or array.dtype != dtype:
        received = f"shape {array.shape} and dtype {array.dtype}" if is_array else type(array).__name__
    elif not (array.flags.c_contiguous and array.flags.writeable):
        received = "one that is read-only or has gaps"
    else:
        return
    raise ArgumentError(
        f"{name} is a writable C-contiguous array of shape {shape} and dtype {dtype}; received {received}"
    )


_TOGETHER = 2**19  # bytes of observations: this amount fits into the cache of one core


@final
class TransitionReader:
    """Reads transitions from the columns of a memory, by the slots of their first steps."""

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        links: EpisodeLinks,
        n_step: int,
        gamma: float,
        stacking: tuple[int, str],
    ) -> None:
        """Stores the columns and the parameters of transitions."""
        self._columns, self._links = columns, links
        self._n_step = arguments.count("n_step", n_step)
        if not 0 <= gamma <= 1:
            raise ArgumentError(f"gamma is a number from 0 to 1; received {gamma!r}")
        self._gamma, self._frames = float(gamma), stacking[0]
        self._zeros = arguments.one_of("padding", stacking[1], ("reset", "zero")) == "zero"
        single = sum(column[:1].nbytes for name, column in columns.items() if name.startswith("observation."))
        self._together = max(_TOGETHER // (single * self._frames), 1)

    def read(self, slots: np.ndarray, batch: TransitionBatch) -> None:
        """Writes the transitions that begin at these slots into a batch, without its weights."""
        before = self._links.previous[slots]
        rewards = self._columns["reward"]
        if self._n_step == 1:
            last = slots
            np.take(rewards, slots, out=batch.reward, mode="clip")
            batch.discount[:] = self._gamma
        else:
            last, batch.reward[:], batch.discount[:] = self._several_steps(slots)
        batch.discount[:] *= (np.take(self._columns["tag"], last, mode="clip") & TERMINATED) == 0
        newest = self._links.head - 1
        # The row of a slot is the newest one in it.
        batch.indices[:] = newest - (newest - slots) % len(self._links.usable)
        self._take("action", slots, batch.action)
        # Read all small tables before the frames, which displace them from the caches.
        stacks = self._stacked(before)
        shared = self._n_step == 1 and self._frames > 1
        following = last if shared else self._stacked(last)
        # A few transitions at a time: the frames of one observation are still cached for the other.
        for begin in range(0, len(slots), self._together):
            part = slice(begin, begin + self._together)
            self._take("observation", stacks[part], batch.observation, part)
            if shared:
                self._shift(following[part], batch, part)
            else:
                self._take("observation", following[part], batch.next_observation, part)

    def _several_steps(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the last slots of n steps, or of fewer, and their discounted rewards and discounts."""
        rewards, last = self._columns["reward"], slots
        total, discount = rewards[slots].astype(np.float64), np.full(len(slots), self._gamma)
        for _ in range(self._n_step - 1):
            after = self._links.next[last]
            going = after >= 0
            last = np.where(going, after, last)
            total += np.where(going, discount * rewards[last], 0.0)
            discount = np.where(going, discount * self._gamma, discount)
        return last, total, discount

    def _stacked(self, slots: np.ndarray) -> np.ndarray:
        """Returns the slots of the frames of some observations, oldest first; -1 for zeros."""
        if self._frames == 1:
            return slots
        stacks = np.empty((len(slots), self._frames), np.int64)
        stacks[:, -1] = slots
        for place in range(self._frames - 2, -1, -1):
            stacks[:, place] = self._links.previous[stacks[:, place + 1]]
        if self._zeros:
            # The frame before the first one of an episode is the first frame itself.
            stacks[:, :-1][stacks[:, :-1] == stacks[:, 1:]] = -1
        return stacks

    def _shift(self, newest: np.ndarray, batch: TransitionBatch, part: slice) -> None:
        """Writes next observations: the frames of the observations without the oldest, and new ones."""
        for key, after in _named(batch.next_observation).items():
            after[part, :-1] = _named(batch.observation)[key][part, 1:]
            after[part, -1] = self._columns[f"observation.{key}"][newest]

    def _take(self, kind: str, slots: np.ndarray, target: Any, part: slice = slice(None)) -> None:
        for key, array in _named(target).items():
            column = self._columns[f"{kind}.{key}"]
            frames = array[part].reshape(slots.size, *column.shape[1:])
            # Any other mode makes an intermediate copy.
            np.take(column, slots.reshape(-1), axis=0, out=frames, mode="clip")
            if self._zeros and slots.ndim == 2:
                frames[slots.reshape(-1) < 0] = 0


def _named(arrays: Nested) -> dict[str, np.ndarray]:
    return arrays if isinstance(arrays, dict) else {"": arrays}
