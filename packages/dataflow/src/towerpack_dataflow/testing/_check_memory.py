"""`check_memory`: checks the promises of a memory of transitions, of any class."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np

from ._check_dataflow import ConformanceError, same

__all__ = ["check_memory"]

_BATCH = 16
_ENVIRONMENTS = 2
_FIELDS = ("observation", "action", "reward", "next_observation", "discount", "indices")


def check_memory(make: Callable[[], Any], *, n_step: int = 1, gamma: float = 0.99) -> None:
    """Checks that an object keeps the promises of a replay memory.

    Samples were added before: rewards are summed within one episode, a termination ends bootstrapping and a
    truncation does not. Returned batches do not change. Invalid transitions are rejected. Two memories with
    the same seed return the same samples, and so does one restored from `state_dict()` and `link_into()`,
    priorities included.

    The check needs no pytest, and uses only `add`, `sample`, `update_priorities`, `state_dict`,
    `load_state_dict` and `link_into`, so it accepts objects of any class.

    Args:
        make: creates an empty memory with the same seed at each call, for observations of shape [2] and dtype
            float32 that are not stacked, actions of shape [] and dtype int64, and at least 32 transitions.
        n_step: number of steps that the memory joins.
        gamma: discount of the memory.

    Raises:
        ConformanceError: names the first broken promise.

    Example:
        >>> from towerpack_dataflow.replay import ReplayBuffer, UniformSampling
        >>> check_memory(
        ...     lambda: ReplayBuffer(((2,), "float32"), ((), "int64"), 50, sampling=UniformSampling(seed=1))
        ... )
    """
    _check_refusals(make())
    world, memory, twin = _World(n_step, gamma), make(), make()
    for step in world.steps(150):
        memory.add(*step)
        twin.add(*step)
        if world.added >= 2 * _BATCH:
            batch = memory.sample(_BATCH)
            world.check(batch)
            _expect_same(twin.sample(_BATCH), batch, "a second memory with the same seed and the same calls")
            _set_priorities([memory, twin], batch)
    _check_kept(memory)
    _check_restored(make, world, memory)


@final
class _World:
    """Steps of two environments that identify themselves: an observation is [episode, time]."""

    def __init__(self, n_step: int, gamma: float) -> None:
        self._n_step, self._gamma = n_step, gamma
        self._random = np.random.default_rng(7)
        self._ends: dict[int, tuple[int, bool]] = {}  # by episode: the last time, whether terminated
        self._now = np.array([[number, 0] for number in range(_ENVIRONMENTS)])
        self.added = 0

    def steps(self, count: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the arguments of `add`."""
        for _ in range(count):
            before, after = self._now, self._now + np.array([0, 1])
            terminated, cut = self._random.random((2, _ENVIRONMENTS)) < 0.12
            truncated = cut & ~terminated
            for number in np.flatnonzero(terminated | truncated):
                self._ends[int(after[number, 0])] = int(after[number, 1]), bool(terminated[number])
            self.added += _ENVIRONMENTS
            first = _ENVIRONMENTS * (self.added + 1)
            new = range(first, first + _ENVIRONMENTS)
            self._now = np.where((terminated | truncated)[:, None], [[number, 0] for number in new], after)
            frames = before.astype(np.float32), after.astype(np.float32)
            time = before[:, 1]
            yield frames[0], time, time + 1.0, terminated, truncated, frames[1]

    def check(self, batch: Any) -> None:
        """Checks a batch against the added transitions."""
        for field in _FIELDS:
            if len(getattr(batch, field)) != _BATCH:
                raise ConformanceError(f"sample({_BATCH}): {field} has another length than the batch")
        for row in range(_BATCH):
            values = [np.asarray(getattr(batch, field)[row]) for field in _FIELDS[:5]]
            self._check_row(*values)

    def _check_row(
        self,
        before: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        after: np.ndarray,
        discount: np.ndarray,
    ) -> None:
        episode, time = map(int, before)
        steps = int(after[1]) - time
        if int(after[0]) != episode or not 1 <= steps <= self._n_step:
            raise ConformanceError(
                f"a transition leads from {before.tolist()} to {after.tolist()} ([episode, time]); it "
                f"stays in one episode and has at most {self._n_step} steps"
            )
        if int(action) != time:
            raise ConformanceError(f"the action of {before.tolist()} was {time}, but {action} is returned")
        last, terminated = self._ends.get(episode, (-1, False))
        ends = time + steps == last
        expected = 0.0 if ends and terminated else self._gamma**steps
        why = "a termination makes it 0, and a truncation does not"
        _expect_close(discount, expected, f"the discount of {steps} steps from {before.tolist()}", why)
        total = sum(self._gamma**number * (time + 1.0 + number) for number in range(steps))
        _expect_close(
            reward, total, f"the reward of {steps} steps from {before.tolist()}", "it is discounted"
        )
        newest = any(int(now[0]) == episode and int(now[1]) == time + steps for now in self._now)
        if steps < self._n_step and not ends and not newest:
            raise ConformanceError(
                f"a transition from {before.tolist()} has {steps} steps, but {self._n_step} were added; "
                "only the end of an episode or of the added data makes fewer"
            )


def _expect_close(received: np.ndarray, expected: float, what: str, why: str) -> None:
    if not np.isclose(received, expected, rtol=1e-5):
        raise ConformanceError(f"{what} is {expected}; {received} is returned. Note that {why}")


def _expect_same(received: Any, expected: Any, what: str) -> None:
    for field in _FIELDS:
        if not same(getattr(received, field), getattr(expected, field)):
            raise ConformanceError(
                f"{what} returns another {field}. Draw random numbers only from a seeded generator, and "
                f"save it"
            )


def _set_priorities(memories: list[Any], batch: Any) -> None:
    priorities = 0.1 + np.asarray(batch.observation)[:, 1] % 3
    for memory in memories:
        memory.update_priorities(batch.indices, priorities)


def _check_refusals(memory: Any) -> None:
    _expect_refusal(lambda: memory.sample(_BATCH), "sampling an empty memory")
    frames, no = np.zeros((2, 2), np.float32), np.zeros(2, bool)
    steps = np.array([0, 0]), np.array([1.0, np.nan])
    _expect_refusal(lambda: memory.add(frames, *steps, no, no, frames), "a reward that is NaN")
    wrong = np.zeros((2, 3), np.float32)
    _expect_refusal(lambda: memory.add(wrong, steps[0], np.ones(2), no, no, wrong), "frames of other shapes")
    for step in _World(1, 1.0).steps(2 * _BATCH):
        memory.add(*step)
    found = memory.sample(_BATCH).indices
    nan = np.full(_BATCH, np.nan)
    _expect_refusal(lambda: memory.update_priorities(found, nan), "priorities that are NaN")
    one = np.ones(_BATCH)
    _expect_refusal(lambda: memory.update_priorities(found + 10**9, one), "priorities of other indices")


def _expect_refusal(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except (LookupError, TypeError, ValueError):
        return
    raise ConformanceError(f"{what} is not rejected; raise a LookupError, TypeError or ValueError")


def _check_kept(memory: Any) -> None:
    batch = memory.sample(_BATCH)
    before = copy.deepcopy(batch)
    for _ in range(4):
        memory.sample(_BATCH)
    _expect_same(batch, before, "a batch kept while others were sampled")


def _check_restored(make: Callable[[], Any], world: _World, memory: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "memory")
        try:
            state = json.loads(json.dumps(memory.state_dict()))
        except TypeError as error:
            raise ConformanceError(f"state_dict() is not JSON: {error}; link_into() is for arrays") from error
        memory.link_into(place)
        restored = make()
        restored.load_state_dict(state, place)
        for step in world.steps(20):
            batch = memory.sample(_BATCH)
            _expect_same(restored.sample(_BATCH), batch, "a memory restored from a state")
            _set_priorities([memory, restored], batch)
            memory.add(*step)
            restored.add(*step)
