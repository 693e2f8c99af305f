"""`TransitionBatch`: a batch from a replay memory, and the allocation of its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from .._errors import ArgumentError
from ..batch import BufferPool
from ._array_specs import ArraySpec, Nested, named, nested

__all__ = ["BatchArrays", "TransitionBatch"]


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
    """

    observation: Nested
    action: Nested
    reward: np.ndarray
    next_observation: Nested
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
