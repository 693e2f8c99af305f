"""`ReplayBuffer`: the memory of an agent that trains repeatedly on past transitions."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, StateError, TooFewTransitionsError
from ._array_specs import ArraySpec, array_specs
from ._memory_layout import LINK_BYTES, STARTED, MemoryLayout, StepRows, columns_of, memory_layout
from ._sampling import EpisodeLinks, PrioritizedSampling, Sampling, UniformSampling
from ._saved_files import (
    check_segments,
    check_target,
    read_arrays,
    read_contents,
    restore_segments,
    save_segments,
    write_arrays,
    write_contents,
)
from ._segments import Segments
from ._transition_reader import BatchArrays, TransitionBatch, TransitionReader

__all__ = ["MemoryState", "ReplayBuffer"]

_FORMAT = 1


@final
class MemoryState:
    """Saves and restores the parts of a memory: a dict for JSON, and files in a directory."""

    def __init__(
        self, layout: MemoryLayout, links: EpisodeLinks, segments: Segments, sampling: Sampling
    ) -> None:
        """Stores the parts of the memory."""
        self._layout, self._links, self._segments, self._sampling = layout, links, segments, sampling

    def dump(self) -> dict[str, Any]:
        """Returns everything except the transitions."""
        return {
            "version": _FORMAT,
            "memory": self._layout.fingerprint(),
            "rows": [self._links.tail, self._links.head],
            "open": self._links.open_rows(),
            "sampling": self._sampling.state_dict(),
        }

    def save(self, directory: Path) -> None:
        """Writes transitions and priorities to a directory."""
        check_target(directory)
        rows, length = (self._links.tail, self._links.head), self._layout.segment_rows
        segments = save_segments(self._segments, rows, length, directory)
        arrays = write_arrays(self._sampling.arrays(self._slots(rows)), directory)
        contents = {"version": _FORMAT, "of": self._layout.fingerprint(), "rows": list(rows)}
        write_contents({**contents, "segments": segments, "arrays": arrays}, directory)

    def load(self, state: Mapping[str, Any], directory: Path | None) -> None:
        """Restores both; changes nothing unless all of it is valid."""
        self._check(state)
        rows = int(state["rows"][0]), int(state["rows"][1])
        if directory is None:
            if rows[1]:
                raise StateError(
                    f"the transitions of this state, rows {rows[0]} to {rows[1]}, are in files; received no "
                    "directory. Pass the one filled by link_into()"
                )
            self._restore(state, rows, {}, {}, Path())
            return
        contents = read_contents(directory)
        if contents.get("version") != _FORMAT or contents.get("rows") != list(rows):
            raise StateError(
                f"the state has rows {list(rows)}, but {directory} has rows {contents.get('rows')}; save "
                "both at the same time: nothing may be added between state_dict() and link_into()"
            )
        if contents.get("of", self._layout.fingerprint()) != self._layout.fingerprint():
            raise StateError(
                f"{directory} belongs to another memory, {contents['of']}; this one is "
                f"{self._layout.fingerprint()}"
            )
        check_segments(contents["segments"], self._segments, directory)
        arrays = read_arrays(contents["arrays"], directory)
        self._restore(state, rows, contents["segments"], arrays, directory)

    def _restore(
        self,
        state: Mapping[str, Any],
        rows: tuple[int, int],
        segments: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        directory: Path,
    ) -> None:
        self._sampling.load_state_dict(state["sampling"])
        self._segments.clear()
        restore_segments(self._segments, segments, self._layout.segment_rows, directory)
        slots = self._slots(rows)
        tags = self._segments.columns["tag"][slots] if len(slots) else np.zeros(0, np.int32)
        self._links.restore(rows, tags // 8, (tags & STARTED) > 0, state["open"])
        self._sampling.restore(slots, arrays)

    def _check(self, state: Mapping[str, Any]) -> None:
        wanted = {"version", "memory", "rows", "open", "sampling"}
        if not isinstance(state, Mapping) or not wanted <= state.keys() or state["version"] != _FORMAT:
            raise StateError(
                f"a state is the result of state_dict() of a memory, in format {_FORMAT}; received "
                f"{str(state)[:200]}"
            )
        ours, theirs = self._layout.fingerprint(), state["memory"]
        different = {name: (theirs.get(name), ours[name]) for name in ours if theirs.get(name) != ours[name]}
        if different:
            texts = [f"{name} was {old} and is {new}" for name, (old, new) in different.items()]
            raise StateError(f"the state belongs to another memory: {'; '.join(texts)}", different)
        kind = state["sampling"].get("kind")
        if kind != type(self._sampling).__name__:
            raise StateError(f"the state has {kind}, but this memory has {type(self._sampling).__name__}")

    def _slots(self, rows: tuple[int, int]) -> np.ndarray:
        return np.arange(*rows) % self._layout.slots


@final
class ReplayBuffer:
    """Stores the last transitions of any number of environments and returns batches of them.

    Each frame is stored once, in segments of mapped memory: the observation after a step is that before the
    next one, and a stack of frames is assembled during sampling, from frames of one episode. A first frame
    takes the room of a transition.

    One thread may add while others sample. Samples are a function of the seed and of the calls made, also
    across a checkpoint: `state_dict()` contains the random numbers, and `link_into()` writes the transitions
    to a directory.

    Args:
        observation_space: space of one observation (one frame, if frames are stacked): any object with
            `shape` and `dtype`, a pair of both, or a dict of these.
        action_space: space of one action, likewise.
        capacity: the largest number of transitions to keep.
        max_bytes: the largest number of bytes to use, in place of `capacity` or besides it.
        directory: directory for the files of the segments, used by this memory alone, and not that of a saved
            one. On the file system of the checkpoints, it makes them fast. By default the segments are in
            anonymous memory.
        sampling: `UniformSampling` or `PrioritizedSampling`; by default the former.
        n_step: number of steps joined into one; fewer at the end of an episode or of the stored data.
        gamma: discount of rewards.
        frame_stack: number of frames in an observation of a batch.
        padding: frames in front of the first one of an episode: `"reset"` repeats it, `"zero"` is zeros, as
            in gymnasium's `FrameStackObservation`.

    Raises:
        ArgumentError: a limit, or another argument, is invalid.
        ArgumentTypeError: a space does not consist of arrays.

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
        """Creates an empty memory."""
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
        """Returns the number of transitions that can be sampled."""
        return self._links.count

    @property
    def capacity(self) -> int:
        """The largest number of transitions."""
        return self._layout.capacity

    @property
    def nbytes(self) -> int:
        """The largest number of bytes."""
        return self._layout.nbytes

    @property
    def sampling(self) -> Sampling:
        """The sampling of transitions."""
        return self._sampling

    @property
    def prioritized(self) -> bool:
        """Whether sampling depends on the priorities set by `update_priorities`."""
        return isinstance(self._sampling, PrioritizedSampling)

    @property
    def n_step(self) -> int:
        """The number of steps joined into one."""
        return self._n_step

    @property
    def gamma(self) -> float:
        """The discount of rewards."""
        return self._gamma

    @property
    def frame_stack(self) -> int:
        """The number of frames in an observation of a batch."""
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
        """Adds one transition, or one for each of several environments.

        The reward decides: a number, or a sequence of numbers. For several environments, all arguments have a
        first axis of that length.

        Args:
            observation: observation before the step; if frames are stacked, only the newest frame. It must be
                the `next_observation` of the previous transition, unless that one has ended the episode.
            action: action of the step.
            reward: reward of the step; finite.
            terminated: whether the episode has terminated.
            truncated: whether the episode was truncated.
            next_observation: observation after the step; at the end of an episode its last observation, not
                the first one of the next episode.
            environments: the numbers of the environments; by default 0, 1, 2, … Leave out those with a step
                that was only a reset (gymnasium's autoreset mode `NEXT_STEP`).

        Raises:
            ArgumentError: a shape or a value is invalid, or the observation does not continue the episode.
            ArgumentTypeError: a dtype differs.
            OSError: there is no room for another segment.
        """
        step = self._rows.checked(
            observation, action, reward, terminated, truncated, next_observation, environments
        )
        with self._lock:
            self._check_open()
            # A segment is longer than its share of the capacity, so no row being read is overwritten.
            for part in step.parts(max(self._layout.segment_rows // 2, 1)):
                starts = self._rows.starts(part, self._links, self._segments.columns)
                self._segments.write(self._links.head, part.rows(starts))
                added = self._links.add(part.environments, starts, part.ended)
                self._sampling.changed(added, self._links.forget_oldest())

    def sample(self, batch_size: int, out: TransitionBatch | None = None) -> TransitionBatch:
        """Draws a batch of transitions.

        Args:
            batch_size: number of transitions, drawn with replacement.
            out: the batch to write into, such as an earlier result. By default the arrays use memory that is
                reused once no view of it is left.

        Raises:
            ArgumentError: the capacity is smaller than the batch, or `out` has another size.
            TooFewTransitionsError: there are fewer transitions so far.
        """
        size = arguments.count("batch_size", batch_size)
        if size > self._layout.capacity:
            raise ArgumentError(
                f"batch_size is at most the capacity, {self._layout.capacity}; received {size}. "
                "Increase the capacity, or reduce the batch"
            )
        batch = self._arrays.allocate(size) if out is None else self._arrays.check(out, size)
        with self._lock:
            self._check_open()
            if self._links.count < size:
                raise TooFewTransitionsError(
                    f"the memory holds {self._links.count} transitions; received a request for {size}. "
                    "Add more before training starts"
                )
            slots = self._sampling.draw(self._links, size)
            batch.weight[:] = self._sampling.weights(slots, self._links.count)
            self._reader.read(slots, batch)
        return batch

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """Sets the priorities of sampled transitions; uniform sampling only checks the arguments.

        Args:
            indices: indices of the batch. Transitions dropped by the memory since then are ignored.
            priorities: new priorities, such as absolute errors; finite and at least 0.

        Raises:
            ArgumentError: an index never had a transition, or a priority is invalid.
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
        """Starts a new episode with the next transition of each environment, without an end of the last one.

        For restarted environments, such as those not restored from a checkpoint.
        """
        with self._lock:
            self._links.break_episodes()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything except the transitions, ready for JSON."""
        with self._lock:
            return self._state.dump()

    def link_into(self, directory: str | os.PathLike[str]) -> None:
        """Writes the transitions to a directory: sealed segments by hard links, the rest as copies.

        Between `state_dict()` and this call, nothing may be added and no priority set.

        Args:
            directory: created if missing; must not contain files of a memory.

        Raises:
            ArgumentError: the directory contains files of a memory.
            OSError: the directory cannot be written to.
        """
        with self._lock:
            self._check_open()
            self._state.save(Path(directory))

    def load_state_dict(
        self, state: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
    ) -> None:
        """Restores the memory of a state; a rejected state changes nothing.

        Args:
            state: a result of `state_dict()`.
            directory: the directory filled by `link_into()`; None only for the state of an empty memory.

        Raises:
            StateError: the state belongs to another memory, or to another time than the directory.
            SegmentError: a file is missing or damaged; the error names it.
        """
        with self._lock:
            self._check_open()
            self._state.load(state, None if directory is None else Path(directory))

    def close(self) -> None:
        """Removes the segments, also those in files; the memory is unusable afterwards.

        Files written by `link_into()` stay. A memory does the same when it is garbage-collected.
        """
        with self._lock:
            self._closed = True
            self._segments.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError(
                "the memory is closed; received another call. Create a new one, and load a state"
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
            "priorities are finite numbers from 0 up; received others, such as NaN. Check the loss they "
            "come from"
        )


def _are_priorities(values: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool((np.isfinite(values.astype(np.float64)) & (values >= 0)).all())
