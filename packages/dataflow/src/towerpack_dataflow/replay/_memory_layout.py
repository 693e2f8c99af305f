"""`MemoryLayout`: the columns and the number of rows of a memory, within its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ._array_specs import ArraySpec, checked_array, named, rewards, switches
from ._sampling import EpisodeLinks
from ._segments import least_rows

__all__ = [
    "LINK_BYTES",
    "STARTED",
    "TERMINATED",
    "TRUNCATED",
    "MemoryLayout",
    "Step",
    "StepRows",
    "columns_of",
    "memory_layout",
]

LINK_BYTES = 9  # per row in `EpisodeLinks`
STARTED, TERMINATED, TRUNCATED = 1, 2, 4  # in "tag", below the number of the environment
_LARGEST = 2**26  # bytes of a segment: a checkpoint copies one
_SHARE = 16  # segments per memory; one more than the capacity needs is kept


class MemoryLayout(NamedTuple):
    """The size of a memory.

    Attributes:
        columns: the arrays of a row by name.
        capacity: number of rows to keep.
        segment_rows: number of rows in a segment.
        parts: number of segments.
        row_bytes: bytes of a row, including its part in the memory of the process.
    """

    columns: dict[str, ArraySpec]
    capacity: int
    segment_rows: int
    parts: int
    row_bytes: int

    @property
    def slots(self) -> int:
        """The number of rows with room."""
        return self.segment_rows * self.parts

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return self.slots * self.row_bytes

    def fingerprint(self) -> dict[str, Any]:
        """Returns the properties that a fitting state must share, ready for JSON."""
        columns = {name: [list(spec.shape), spec.dtype.str] for name, spec in self.columns.items()}
        return {"columns": columns, "capacity": self.capacity, "segment rows": self.segment_rows}


def columns_of(observation: Mapping[str, ArraySpec], action: Mapping[str, ArraySpec]) -> dict[str, ArraySpec]:
    """Returns the arrays of a row."""
    return {
        **{f"observation.{key}": spec for key, spec in observation.items()},
        **{f"action.{key}": spec for key, spec in action.items()},
        "reward": ArraySpec((), np.dtype(np.float32)),
        "tag": ArraySpec((), np.dtype(np.int32)),
    }


def memory_layout(
    columns: dict[str, ArraySpec], capacity: int | None, max_bytes: int | None, extra: int
) -> MemoryLayout:
    """Returns the layout of a memory within limits of rows and bytes.

    Args:
        columns: the arrays of a row.
        capacity: limit of rows; None for the limit of `max_bytes`.
        max_bytes: limit of bytes; None for no limit besides `capacity`.
        extra: bytes of a row besides its columns.

    Raises:
        ArgumentError: there is no limit, or not enough room for two segments.
    """
    if capacity is None and max_bytes is None:
        raise ArgumentError("a memory needs a limit; received neither capacity nor max_bytes")
    least, stored = least_rows(columns), sum(spec.nbytes for spec in columns.values())
    rows = [] if capacity is None else [arguments.count("capacity", capacity, most=2**31 - 2**28)]
    if max_bytes is not None:
        rows.append(arguments.count("max_bytes", max_bytes) // (stored + extra))
    wanted = min(min(rows) // _SHARE, _LARGEST // stored)
    segment_rows = max(least, -(-wanted // least) * least)
    room = -(-rows[0] // segment_rows) + 1 if capacity is not None else rows[-1] // segment_rows
    parts = room if max_bytes is None else min(room, rows[-1] // segment_rows)
    if parts < 2:
        raise ArgumentError(
            f"max_bytes is at least {2 * segment_rows * (stored + extra)} for these observations, which "
            f"is two segments; received {max_bytes}"
        )
    kept = (parts - 1) * segment_rows
    return MemoryLayout(columns, min(kept, capacity or kept), segment_rows, parts, stored + extra)


_MOST_ENVIRONMENTS = 2**24


class Step(NamedTuple):
    """One step of some environments, which are the first axis of all arrays.

    Attributes:
        columns: frames after the step, actions and rewards, by the names of the memory's columns.
        before: frames before the step, by the same names.
        flags: `TERMINATED` and `TRUNCATED`.
        environments: their numbers.
    """

    columns: dict[str, np.ndarray]
    before: dict[str, np.ndarray]
    flags: np.ndarray
    environments: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """Whether the step ends an episode."""
        return self.flags > 0

    def parts(self, size: int) -> Iterator[Step]:
        """Yields the step in parts of `size` environments."""
        if len(self.environments) <= size:
            yield self
            return
        for begin in range(0, len(self.environments), size):
            part = slice(begin, begin + size)
            columns, before = ({k: v[part] for k, v in arrays.items()} for arrays in self[:2])
            yield Step(columns, before, self.flags[part], self.environments[part])

    def rows(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the rows to store: the first frames of episodes, then the steps."""
        tags = self.environments * 8
        values = {**self.columns, "tag": (tags + self.flags).astype(np.int32)}
        if not starts.any():
            return values
        count = int(starts.sum())
        first = {
            name: self.before[name][starts]
            if name in self.before
            else np.zeros((count, *array.shape[1:]), array.dtype)
            for name, array in values.items()
        }
        first["tag"] = (tags[starts] + STARTED).astype(np.int32)
        return {name: np.concatenate([first[name], array]) for name, array in values.items()}


@final
class StepRows:
    """Checks steps against the spaces of a memory."""

    def __init__(self, observation: Mapping[str, ArraySpec], action: Mapping[str, ArraySpec]) -> None:
        """Stores the specs."""
        self._observation, self._action = observation, action

    def checked(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        next_observation: Any,
        environments: Any,
    ) -> Step:
        """Returns the arguments of `add` as arrays of the memory's shapes and dtypes.

        Raises:
            ArgumentError: a shape or a value is invalid.
            ArgumentTypeError: a dtype differs.
        """
        lead = np.shape(reward)
        if len(lead) > 1:
            raise ArgumentError(
                f"reward is a number, or has one axis, of environments; received shape {lead}"
            )
        taken = rewards("reward", reward, lead)
        after = self._frames("next_observation", next_observation, lead)
        before = self._frames("observation", observation, lead)
        actions = self._arrays("action", "action", action, self._action, lead)
        flags = TERMINATED * switches("terminated", terminated, lead) + TRUNCATED * switches(
            "truncated", truncated, lead
        )
        columns = {**after, **actions, "reward": taken}
        if not lead:
            columns, before = ({k: v[None] for k, v in arrays.items()} for arrays in (columns, before))
        return Step(columns, before, np.atleast_1d(flags), _environments(environments, lead))

    def starts(self, step: Step, links: EpisodeLinks, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns which environments start an episode.

        Raises:
            ArgumentError: in another environment, the frame does not follow from the previous step.
        """
        rows = links.last_rows(step.environments)
        starts = rows < 0
        slots = rows[~starts] % len(links.usable)
        for name, frames in step.before.items():
            given, kept = frames[~starts] if starts.any() else frames, columns[name][slots]
            if not np.array_equal(_bytes(given), _bytes(kept)):
                raise _other_moment(_bytes(given), _bytes(kept), step.environments[~starts])
        return starts

    def _frames(self, name: str, value: Any, lead: tuple[int, ...]) -> dict[str, np.ndarray]:
        return self._arrays(name, "observation", value, self._observation, lead)

    def _arrays(
        self, name: str, column: str, value: Any, specs: Mapping[str, ArraySpec], lead: tuple[int, ...]
    ) -> dict[str, np.ndarray]:
        parts = named(name, value, specs)
        return {
            f"{column}.{key}": checked_array(f"{name}[{key!r}]" if key else name, parts[key], spec, lead)
            for key, spec in specs.items()
        }


def _environments(value: Any, lead: tuple[int, ...]) -> np.ndarray:
    if value is None:
        return np.arange(lead[0] if lead else 1)
    numbers = np.asarray(value)
    fits = numbers.shape == lead and (numbers.dtype.kind in "iu" or not numbers.size)
    numbers = np.atleast_1d(numbers).astype(np.int64) if fits else numbers
    if not fits or ((numbers < 0) | (numbers >= _MOST_ENVIRONMENTS)).any():
        raise ArgumentError(
            f"environments is an integer from 0 up to {_MOST_ENVIRONMENTS - 1} for each reward; received "
            f"{value!r}"
        )
    if len(np.unique(numbers)) != len(numbers):
        raise ArgumentError(f"environments are distinct numbers; received {value!r}")
    return numbers


def _bytes(frames: np.ndarray) -> np.ndarray:
    """Returns a row of bytes for each frame, in which a NaN equals itself."""
    return np.ascontiguousarray(frames.reshape(len(frames), prod(frames.shape[1:]))).view(np.uint8)


def _other_moment(given: np.ndarray, kept: np.ndarray, environments: np.ndarray) -> ArgumentError:
    wrong = environments[(given != kept).any(axis=1)]
    return ArgumentError(
        "observation is the next_observation of the previous transition; received another one from "
        f"environments {wrong[:5].tolist()}. Pass terminated or truncated at the end of an episode, leave "
        "out a step that only resets (autoreset mode NEXT_STEP), and call break_episodes() before a new start"
    )
