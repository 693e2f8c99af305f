"""Sampling of transitions from a memory: uniformly, or by priority in a tree of sums."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, StateError
from ..flow._epoch import draw_seed

__all__ = ["EpisodeLinks", "PrioritizedSampling", "Sampling", "SumTree", "UniformSampling"]


@final
class EpisodeLinks:
    """Links the rows of each environment's episodes, and drops the oldest rows.

    A row is a frame and the step that led to it; the row of an episode's first frame, its start, has no step.
    So a transition is a row and its predecessor, and its frames are stored once::

        row            0       1       2       3        4
        environment    A       B       A       B        A
        frame          a0      b0      a1      b1       a2
        step           start   start   a0->a1  b0->b1   a1->a2
        previous       0       1       0       1        2

    Row numbers are permanent; row r is in slot `r % slots`. The last `capacity` rows are kept. A row is
    usable if it is a transition, and if all frames stacked in front of it are kept, too.

    Attributes:
        previous: int32 by slot, the slot of the previous frame; a start refers to itself.
        next: int32 by slot, the slot of the next frame, or -1.
        usable: whether the slot has a transition that can be sampled.
        tail: the oldest row kept.
        head: the number of the next row.
        count: number of usable rows.
    """

    def __init__(self, slots: int, capacity: int, frame_stack: int) -> None:
        """Starts without rows."""
        self._slots, self._capacity, self._frame_stack = slots, capacity, frame_stack
        self.previous = np.zeros(slots, np.int32)
        self.next = np.full(slots, -1, np.int32)
        self.usable = np.zeros(slots, bool)
        self.tail = self.head = self.count = 0
        self._last = np.full(1, -1)

    def last_rows(self, environments: np.ndarray) -> np.ndarray:
        """Returns the last row of each environment's open episode; -1 if none is open or kept."""
        missing = int(environments.max(initial=0)) + 1 - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.full(missing + len(self._last), -1)])
        rows = self._last[environments]
        return np.where(rows >= self.tail, rows, -1)

    def add(self, environments: np.ndarray, starts: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Links the rows of one step of some environments: the starts first, then one transition each.

        Args:
            environments: distinct numbers.
            starts: whether the environment has no open episode.
            ended: whether the step ends the episode.

        Returns:
            The slots of the transitions.
        """
        before = self.last_rows(environments)
        first, begun = self.head, int(starts.sum())
        begun_rows = np.arange(first, first + begun)
        rows = np.arange(first + begun, first + begun + len(environments))
        before[starts] = begun_rows
        self._link(begun_rows % self._slots, begun_rows % self._slots, False)
        slots = rows % self._slots
        self._link(slots, before % self._slots, True)
        self.next[before % self._slots] = slots
        self._last[environments] = np.where(ended, -1, rows)
        self.head += begun + len(environments)
        self.count += len(environments)
        return slots

    def _link(self, slots: np.ndarray, before: np.ndarray, usable: bool) -> None:
        self.previous[slots] = before
        self.next[slots] = -1
        self.usable[slots] = usable

    def forget_oldest(self) -> np.ndarray:
        """Drops the rows beyond the capacity; returns the slots that are no longer usable."""
        tail = max(self.tail, self.head - self._capacity)
        slots = np.arange(self.tail, tail) % self._slots
        self.tail = tail
        lost = []
        for _ in range(self._frame_stack + 1):  # rows that need the frame of a dropped row follow it directly
            lost.append(slots[self.usable[slots]])
            self.usable[lost[-1]] = False
            after = self.next[slots]
            slots = after[after >= 0].astype(np.int64)
        found = np.concatenate(lost)
        self.count -= len(found)
        return found

    def break_episodes(self) -> None:
        """Closes all open episodes without an end: the next rows of their environments start new ones."""
        self._last[:] = -1

    def open_rows(self) -> list[list[int]]:
        """Lists the environments with an open episode, each with its last row."""
        (found,) = np.nonzero(self._last >= self.tail)
        return [[int(environment), int(self._last[environment])] for environment in found]

    def restore(
        self,
        rows: tuple[int, int],
        environments: np.ndarray,
        starts: np.ndarray,
        open_rows: list[list[int]],
    ) -> None:
        """Rebuilds the links of rows from stored data.

        Args:
            rows: the tail and the head.
            environments: the environment of each of these rows.
            starts: whether the row is the start of an episode.
            open_rows: a result of `open_rows`.
        """
        self.tail, self.head = rows
        slots = np.arange(*rows) % self._slots
        places = np.arange(len(slots))
        order = np.argsort(environments, kind="stable")
        joined = (environments[order[1:]] == environments[order[:-1]]) & ~starts[order[1:]]
        after, before = order[1:][joined], order[:-1][joined]
        previous = places.copy()
        previous[after] = before
        self.previous[slots] = slots[previous]
        self.next[slots] = -1
        self.next[slots[before]] = slots[after]
        usable = self._with_all_frames(previous, starts)
        self.usable[:] = False
        self.usable[slots] = usable
        self.count = int(usable.sum())
        self._last[:] = -1
        for environment, row in open_rows:
            self.last_rows(np.array([environment]))
            self._last[environment] = row

    def _with_all_frames(self, previous: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Returns which rows are transitions with all frames present."""
        rows = np.arange(len(previous))
        cut = ~starts & (previous == rows)  # the previous row was dropped
        usable = ~starts
        for _ in range(self._frame_stack):
            usable &= ~cut[rows]
            rows = previous[rows]
        return usable


_ARITY = 16  # few levels, each with a handful of NumPy calls; a node is two cache lines of 64 bytes


@final
class SumTree:
    """Weights with a tree of sums over groups of sixteen.

    Each sum is computed from the level below, not by differences, so that rounding errors do not accumulate:
    the tree is a function of its weights (Schaul et al. 2016, appendix B.2.1, with wider nodes).

    Args:
        size: number of weights, initially 0.

    Example:
        >>> tree = SumTree(4)
        >>> tree.set(np.array([1, 3]), np.array([1.0, 3.0]))
        >>> tree.total, tree.find(np.array([0.5, 1.5, 3.9])).tolist()
        (4.0, [1, 3, 3])
    """

    def __init__(self, size: int) -> None:
        """Starts with weights of 0."""
        self._levels = [np.zeros((-(-size // _ARITY), _ARITY))]
        while len(self._levels[-1]) > 1:
            self._levels.append(np.zeros((-(-len(self._levels[-1]) // _ARITY), _ARITY)))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(np.add.accumulate(self._levels[-1][0])[-1])

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Returns the weights of some indices."""
        return np.asarray(self._levels[0].reshape(-1)[indices])

    def clear(self) -> None:
        """Sets all weights to 0."""
        for level in self._levels:
            level[:] = 0

    def set(self, indices: np.ndarray, weights: np.ndarray | float) -> None:
        """Sets the weights of some indices; for a repeated index, the last one counts."""
        self._levels[0].reshape(-1)[indices] = weights
        for below, above in zip(self._levels, self._levels[1:]):
            indices = indices // _ARITY
            # The sum as `find` accumulates it: the two must agree to the last bit.
            above.reshape(-1)[indices] = np.add.accumulate(below[indices], axis=1)[:, -1]

    def find(self, points: np.ndarray) -> np.ndarray:
        """Returns the indices at which the running sum of weights exceeds some points.

        Args:
            points: float64, at least 0 and below `total`.

        Returns:
            int64; never an index with weight 0.
        """
        nodes = np.zeros(len(points), np.int64)
        every = np.arange(len(points))
        for level in reversed(self._levels):
            sums = np.add.accumulate(level[nodes], axis=1)
            child = (sums <= points[:, None]).sum(axis=1)
            before = np.where(child > 0, sums[every, child - 1], 0.0)
            nodes = nodes * _ARITY + child
            # Rounding must not lead beyond the selected child.
            points = np.minimum(points - before, np.nextafter(level.reshape(-1)[nodes], 0.0))
        return nodes


_log = logging.getLogger("towerpack_dataflow")
_SPARE = 16  # draw one more for each group of this size
_DENSE = 4  # redraw unusable rows while at least one row in this many is usable


class Sampling(ABC):
    """Draws the transitions of a batch, for one memory; abstract.

    Args:
        seed: seed of the random numbers; by default one is drawn and logged.
    """

    bytes_per_row = 0

    def __init__(self, seed: int | None = None) -> None:
        """Creates the generator."""
        if seed is None:
            seed = draw_seed()
            _log.info("%s: drew seed %d", type(self).__name__, seed)
        self._random = np.random.default_rng(arguments.count("seed", seed, least=0, most=None))
        self._taken = False

    def prepare(self, slots: int) -> None:
        """Sets the number of slots; call it before all other methods.

        Raises:
            ArgumentError: another memory uses the object.
        """
        if self._taken:
            raise ArgumentError(
                f"sampling belongs to one memory; received a {type(self).__name__} of another memory. "
                "Create one for each"
            )
        self._taken = True

    def changed(self, added: np.ndarray, removed: np.ndarray) -> None:
        """Updates the sampling after transitions were added to or removed from slots."""

    @abstractmethod
    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""

    def weights(self, slots: np.ndarray, count: int) -> np.ndarray | float:
        """Returns the factors for the losses of drawn slots."""
        return 1.0

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of some transitions."""

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the data of some slots to save."""
        return {}

    def restore(self, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores a result of `arrays`."""

    def state_dict(self) -> dict[str, Any]:
        """Returns all other data to save, ready for JSON."""
        return {"kind": type(self).__name__, "random": self._random.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a result of `state_dict`.

        Raises:
            StateError: the state belongs to another kind of sampling.
        """
        if state.get("kind") != type(self).__name__:
            raise StateError(f"the state belongs to {state.get('kind')}; this is {type(self).__name__}")
        self._random.bit_generator.state = state["random"]


@final
class UniformSampling(Sampling):
    """Draws each transition with the same probability, with replacement.

    Example:
        >>> from towerpack_dataflow.replay import ReplayBuffer
        >>> spaces = ((4,), np.float32), ((), np.int64)  # of observations and actions
        >>> ReplayBuffer(*spaces, capacity=1000, sampling=UniformSampling(seed=1)).prioritized
        False
    """

    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""
        # Draw a few more at once: the starts of episodes are not usable, and a second call costs the same.
        slots = self._usable(links, size + size // _SPARE + _SPARE)
        while len(slots) < size:
            if links.count * _DENSE < links.head - links.tail:
                (choice,) = np.nonzero(links.usable)
                return choice[self._random.integers(len(choice), size=size)]
            slots = np.concatenate([slots, self._usable(links, size)])
        return slots[:size]

    def _usable(self, links: EpisodeLinks, count: int) -> np.ndarray:
        """Draws slots and returns the usable ones."""
        slots = self._random.integers(links.tail, links.head, size=count) % len(links.usable)
        return np.asarray(slots[links.usable[slots]])


@final
class PrioritizedSampling(Sampling):
    """Draws transitions in proportion to their priorities (Schaul et al. 2016, "Prioritized Experience "
    "Replay").

    The range of all priorities is divided into equal parts, one per transition of the batch, and one
    transition is drawn from each. The weights compensate for the probabilities, and are divided by the
    largest one of the batch. A new transition has the largest priority so far.

    Args:
        alpha: exponent of the priorities, 0 for uniform sampling.
        beta: exponent of the weights, 1 for no bias.
        epsilon: added to each priority, so that none is 0.
        seed: seed of the random numbers; by default one is drawn and logged.

    Attributes:
        beta: may be changed while training; the paper increases it from 0.4 to 1.

    Example:
        >>> from towerpack_dataflow.replay import ReplayBuffer
        >>> spaces = ((4,), np.float32), ((), np.int64)  # of observations and actions
        >>> ReplayBuffer(*spaces, capacity=1000, sampling=PrioritizedSampling(beta=0.4)).prioritized
        True
    """

    bytes_per_row = 9  # 8 and a sixteenth of that, a sixteenth of which, …

    def __init__(
        self, alpha: float = 0.6, beta: float = 0.4, epsilon: float = 1e-6, seed: int | None = None
    ) -> None:
        """Stores the exponents."""
        super().__init__(seed)
        for name, value in [("alpha", alpha), ("beta", beta), ("epsilon", epsilon)]:
            if not 0 <= value < np.inf:
                raise ArgumentError(f"{name} is a finite number from 0 up; received {value!r}")
        self._alpha, self.beta, self._epsilon = float(alpha), float(beta), float(epsilon)
        self._largest = 1.0

    def prepare(self, slots: int) -> None:
        """Creates the tree."""
        super().prepare(slots)
        self._tree = SumTree(slots)
        self._most = np.finfo(np.float64).max / (2 * slots)

    def changed(self, added: np.ndarray, removed: np.ndarray) -> None:
        """Sets new transitions to the largest priority, and dropped ones to 0."""
        weights = np.zeros(len(added) + len(removed))
        weights[: len(added)] = self._largest
        self._tree.set(np.concatenate([added, removed]), weights)

    def draw(self, links: EpisodeLinks, size: int) -> np.ndarray:
        """Returns the slots of a batch; all are usable."""
        total = self._tree.total
        points = (np.arange(size) + self._random.random(size)) * (total / size)
        return self._tree.find(np.minimum(points, np.nextafter(total, 0.0)))

    def weights(self, slots: np.ndarray, count: int) -> np.ndarray:
        """Returns (N P)^-beta, divided by the largest one."""
        inverse = (self._tree.get(slots) * (count / self._tree.total)) ** -self.beta
        return np.asarray(inverse / inverse.max())

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of some transitions."""
        if len(slots):
            with np.errstate(over="ignore"):
                weights = (priorities + self._epsilon) ** self._alpha
            if not (weights <= self._most).all():
                raise ArgumentError(
                    f"priorities to the power of alpha are at most {self._most:g}, so that their sum is "
                    f"finite; received {priorities.max():g}"
                )
            self._largest = max(self._largest, float(weights.max()))
            # A 0 would be a transition that is never drawn again, if epsilon is 0 or vanishes in the sum.
            self._tree.set(slots, np.maximum(weights, np.finfo(np.float64).tiny))

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the priorities of some slots, to the power of alpha."""
        return {"priorities": self._tree.get(slots)}

    def restore(self, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """Sets the priorities of these slots, and those of all others to 0."""
        self._tree.clear()
        self._tree.set(slots, arrays.get("priorities", 0.0))

    def state_dict(self) -> dict[str, Any]:
        """Returns the largest priority, the exponents, and the state of the random numbers."""
        powers = {"alpha": self._alpha, "beta": self.beta, "epsilon": self._epsilon}
        return {**super().state_dict(), "largest": self._largest, **powers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a result of `state_dict`.

        Raises:
            StateError: the state belongs to another kind of sampling, or to other exponents.
        """
        for name, mine in {"alpha": self._alpha, "epsilon": self._epsilon}.items():
            if state.get(name, mine) != mine:
                raise StateError(
                    f"the state has priorities with {name}={state[name]}, but these have {name}={mine}; "
                    f"use PrioritizedSampling({name}={state[name]})",
                    {name: (state[name], mine)},
                )
        super().load_state_dict(state)
        self._largest, self.beta = float(state["largest"]), float(state["beta"])
