"""`ReplayBuffer`: the memory of an agent that learns from transitions again and again."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, TooFewTransitionsError
from ._array_specs import ArraySpec, array_specs
from ._episode_links import EpisodeLinks
from ._memory_layout import LINK_BYTES, columns_of, memory_layout
from ._memory_state import MemoryState
from ._sampling import PrioritizedSampling, Sampling, UniformSampling
from ._segments import Segments
from ._step_rows import StepRows
from ._transition_batch import BatchArrays, TransitionBatch
from ._transition_reader import TransitionReader

__all__ = ["ReplayBuffer"]


@final
class ReplayBuffer:
    """Keeps the last transitions of any number of environments, and returns batches of them.

    Each frame is stored once, in segments of mapped memory: the observation after a step is that before the
    next one, and a stack of frames is put together when it is sampled, out of frames of one episode. A first
    frame takes the room of a transition.

    One thread may add while others sample. What is sampled is a function of the seed and of the calls that
    were made, also over a checkpoint: `state_dict()` has the random numbers, and `link_into()` puts the
    transitions into a directory.

    Args:
        observation_space: of one observation (one frame, where frames are stacked): any object with `shape`
            and `dtype`, a pair of both, or a dict of these.
        action_space: of one action, likewise.
        capacity: the most transitions to keep.
        max_bytes: the most bytes to take, in place of `capacity` or besides it.
        directory: of files for the segments, for this memory alone, and not that of a saved one. On the file
            system of the checkpoints, it makes them fast. By default the segments lie in anonymous memory.
        sampling: `UniformSampling` or `PrioritizedSampling`; by default the former.
        n_step: how many steps are joined into one; fewer at the end of an episode and of what was added.
        gamma: the discount of rewards.
        frame_stack: how many frames an observation of a batch is made of.
        padding: the frames in front of the first one of an episode: `"reset"` repeats it, `"zero"` is zeros,
            as those of gymnasium's `FrameStackObservation`.

    Raises:
        ArgumentError: a bound, or another argument, cannot work.
        ArgumentTypeError: a space is not one of arrays.

    Example:
        >>> observation, action = ((2,), "float32"), ((), "int64")
        >>> memory = ReplayBuffer(observation, action, capacity=100, sampling=UniformSampling(seed=1))
        >>> memory.add([0, 0], 1, 0.5, False, False, next_observation=[0, 1])
        >>> memory.add([0, 1], 0, 1.0, True, False, next_observation=[0, 2])
        >>> batch = memory.sample(2)
        >>> batch.observation.shape, batch.discount.dtype.name, len(memory)
        ((2, 2), 'float32', 2)
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        capacity: int | None = None,
        *,
        max_bytes: int | None = None,
        directory: str | os.PathLike[str] | None = None,
        sampling: Sampling | None = None,
        n_step: int = 1,
        gamma: float = 0.99,
        frame_stack: int = 1,
        padding: str = "reset",
    ) -> None:
        """Makes an empty memory."""
        self._frame_stack = arguments.count("frame_stack", frame_stack)
        self._sampling = UniformSampling() if sampling is None else sampling
        observation = array_specs("observation_space", observation_space)
        action = array_specs("action_space", action_space)
        extra = LINK_BYTES + self._sampling.bytes_per_row
        self._layout = memory_layout(columns_of(observation, action), capacity, max_bytes, extra)
        self._links = EpisodeLinks(self._layout.slots, self._layout.capacity, self._frame_stack)
        self._segments = Segments(
            self._layout.columns,
            self._layout.parts,
            self._layout.segment_rows,
            None if directory is None else Path(directory),
        )
        self._rows = StepRows(observation, action)
        self._reader = TransitionReader(
            self._segments.columns, self._links, n_step, gamma, (self._frame_stack, padding)
        )
        stacked = {key: _stacked(spec, self._frame_stack) for key, spec in observation.items()}
        self._arrays = BatchArrays(stacked, action)
        self._n_step, self._gamma = n_step, float(gamma)
        self._state = MemoryState(self._layout, self._links, self._segments, self._sampling)
        self._sampling.prepare(self._layout.slots)
        self._lock = threading.RLock()
        self._closed = False

    def __len__(self) -> int:
        """Returns how many transitions can be sampled."""
        return self._links.count

    @property
    def capacity(self) -> int:
        """The most transitions that are kept."""
        return self._layout.capacity

    @property
    def nbytes(self) -> int:
        """The most bytes that the memory takes."""
        return self._layout.nbytes

    @property
    def sampling(self) -> Sampling:
        """How transitions are drawn."""
        return self._sampling

    @property
    def prioritized(self) -> bool:
        """Whether that depends on the priorities that `update_priorities` sets."""
        return isinstance(self._sampling, PrioritizedSampling)

    @property
    def n_step(self) -> int:
        """How many steps are joined into one."""
        return self._n_step

    @property
    def gamma(self) -> float:
        """The discount of rewards."""
        return self._gamma

    @property
    def frame_stack(self) -> int:
        """How many frames an observation of a batch is made of."""
        return self._frame_stack

    def add(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        next_observation: Any,
        environments: Any = None,
    ) -> None:
        """Adds one transition, or one of each of several environments.

        Which of the two, the reward says: a number, or a sequence of numbers. For several, all arguments have
        a first axis of that length.

        Args:
            observation: before the step; where frames are stacked, the newest frame alone. It must be the
                `next_observation` of the transition before, unless that one has ended the episode.
            action: of the step.
            reward: finite.
            terminated: whether the episode has come to its end.
            truncated: whether it was cut.
            next_observation: after the step; of an episode that has ended its last observation, and not the
                first one of the next episode.
            environments: the numbers of the environments; by default 0, 1, 2, … Leave out those whose step
                was only a reset (gymnasium's autoreset mode `NEXT_STEP`).

        Raises:
            ArgumentError: a shape or a value cannot be, or the observation is of another moment.
            ArgumentTypeError: a dtype is another one.
            OSError: there is no room for another segment.
        """
        step = self._rows.checked(
            observation, action, reward, terminated, truncated, next_observation, environments
        )
        with self._lock:
            self._check_open()
            # A segment is longer than its share of the capacity, so no row that is looked at is overwritten.
            for part in step.parts(max(self._layout.segment_rows // 2, 1)):
                starts = self._rows.starts(part, self._links, self._segments.columns)
                self._segments.write(self._links.head, part.rows(starts))
                added = self._links.add(part.environments, starts, part.ended)
                self._sampling.changed(added, self._links.forget_oldest())

    def sample(self, batch_size: int, out: TransitionBatch | None = None) -> TransitionBatch:
        """Draws a batch of transitions.

        Args:
            batch_size: how many, with replacement.
            out: the batch to write into, such as the one returned before. By default the arrays are memory
                that is used again once no view of it is left.

        Raises:
            ArgumentError: the memory is smaller than the batch, or `out` is of another size.
            TooFewTransitionsError: there are fewer transitions so far.
        """
        size = arguments.count("batch_size", batch_size)
        if size > self._layout.capacity:
            raise ArgumentError(
                f"batch_size is at most the capacity, {self._layout.capacity}; received {size}. "
                "Make the memory larger, or the batch smaller"
            )
        batch = self._arrays.allocate(size) if out is None else self._arrays.check(out, size)
        with self._lock:
            self._check_open()
            if self._links.count < size:
                raise TooFewTransitionsError(
                    f"the memory holds {self._links.count} transitions; received a request for {size}. "
                    "Add more before learning begins"
                )
            slots = self._sampling.draw(self._links, size)
            batch.weight[:] = self._sampling.weights(slots, self._links.count)
            self._reader.read(slots, batch)
        return batch

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """Sets the priorities of transitions that were sampled; uniform sampling has none, and only checks.

        Args:
            indices: of the batch. Transitions that the memory has dropped since are left out.
            priorities: such as absolute errors; finite and at least 0.

        Raises:
            ArgumentError: an index was never that of a transition, or a priority cannot be one.
        """
        indices, priorities = np.asarray(indices), np.asarray(priorities)
        _check_priorities(indices, priorities)
        priorities = priorities.astype(np.float64)
        with self._lock:
            kept = indices >= self._links.tail
            slots = indices % self._layout.slots
            starts = kept & (self._links.previous[slots] == slots)
            wrong = (indices < 0) | (indices >= self._links.head) | starts
            if wrong.any():
                raise ArgumentError(
                    "indices are those of a batch of this memory; received "
                    f"{indices[wrong][:5].tolist()}, which no transition has ever had"
                )
            chosen = kept & self._links.usable[slots]
            self._sampling.update(slots[chosen], priorities[chosen])

    def break_episodes(self) -> None:
        """Lets the next transition of each environment begin an episode, though none has ended.

        For environments that were started anew, as those are that a checkpoint does not restore.
        """
        with self._lock:
            self._links.break_episodes()

    def state_dict(self) -> dict[str, Any]:
        """Returns all but the transitions, ready for JSON."""
        with self._lock:
            return self._state.dump()

    def link_into(self, directory: str | os.PathLike[str]) -> None:
        """Puts the transitions into a directory: sealed segments by hard links, the rest as copies.

        Nothing may be added, and no priority set, between `state_dict()` and this call.

        Args:
            directory: is made if it is not there; it has no files of a memory yet.

        Raises:
            ArgumentError: it has.
            OSError: the directory cannot be written to.
        """
        with self._lock:
            self._check_open()
            self._state.save(Path(directory))

    def load_state_dict(
        self, state: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
    ) -> None:
        """Goes on as the memory did whose state this is; a state that is refused changes nothing.

        Args:
            state: what `state_dict()` returned.
            directory: which `link_into()` has filled; None only for the state of a memory that was empty.

        Raises:
            StateError: the state is of another memory, or of another moment than the directory.
            SegmentError: a file is missing or damaged; the error names it.
        """
        with self._lock:
            self._check_open()
            self._state.load(state, None if directory is None else Path(directory))

    def close(self) -> None:
        """Removes the segments, also those in files; the memory is of no use afterwards.

        What `link_into()` has put elsewhere stays. A memory that is garbage does so by itself.
        """
        with self._lock:
            self._closed = True
            self._segments.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError(
                "the memory is closed; received another call. Make a new one, and load a state"
            )


def _stacked(spec: ArraySpec, frames: int) -> ArraySpec:
    return spec if frames == 1 else ArraySpec((frames, *spec.shape), spec.dtype)


def _check_priorities(indices: np.ndarray, priorities: np.ndarray) -> None:
    if indices.dtype.kind not in "iu" or indices.ndim != 1 or priorities.shape != indices.shape:
        raise ArgumentError(
            "indices are integers in an array with one axis, and priorities are as many; received shapes "
            f"{indices.shape} and {priorities.shape}, indices of dtype {indices.dtype}"
        )
    if priorities.dtype.kind not in "iuf" or not _are_priorities(priorities):
        raise ArgumentError(
            "priorities are finite numbers from 0 up; received others, such as NaN. Look at the loss they "
            "come from"
        )


def _are_priorities(values: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool((np.isfinite(values.astype(np.float64)) & (values >= 0)).all())
