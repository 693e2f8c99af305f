"""`RolloutBuffer`: the steps between two updates of an on-policy agent."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, StateError, TooFewTransitionsError
from ..flow._epoch import draw_seed
from ._array_specs import array_specs, checked_array, named, nested, numbers, rewards, switches
from ._saved_files import check_target, read_arrays, read_contents, write_arrays, write_contents

__all__ = ["RolloutBatch", "RolloutBuffer", "advantages"]


class RolloutBatch(NamedTuple):
    """Steps of a rollout in any order; the first axis of all arrays is the batch.

    Attributes:
        observation: observation before the step; an array, or a dict of arrays.
        action: action of the step.
        value: float32, the estimated value before the step.
        log_probability: float32, of the action at the time it was taken.
        advantage: float32, by GAE.
        value_target: float32, advantage plus value.

    Example:
        ```python
        for batch in rollout.minibatches(64, epochs=10):
            update(batch.observation, batch.action, batch.advantage)
        ```
    """

    observation: Any  # as in TransitionBatch
    action: Any
    value: np.ndarray
    log_probability: np.ndarray
    advantage: np.ndarray
    value_target: np.ndarray

    def part(self, begin: int, end: int) -> RolloutBatch:
        """Returns the steps at these positions, as views."""
        return RolloutBatch(*(_of_each(arrays, lambda array: array[begin:end]) for arrays in self))


def advantages(
    reward: np.ndarray, value: np.ndarray, next_value: np.ndarray, ended: np.ndarray, gamma: float, lam: float
) -> np.ndarray:
    """Returns the generalised advantage estimates (Schulman et al. 2016, equation 16).

    Args:
        reward: reward of each step, of shape (steps, environments).
        value: value of the observation before it.
        next_value: value of the observation after it; 0 after a termination, and that of the last observation
            of an episode after a truncation.
        ended: whether the episode ends with the step, in either way.
        gamma: discount of rewards.
        lam: discount of estimates over more steps.

    Returns:
        float32, of the same shape.

    Example:
        >>> one = np.ones((2, 1), np.float32)
        >>> advantages(one, 0 * one, 0 * one, one > 2, gamma=0.5, lam=1.0).tolist()
        [[1.5], [1.0]]
    """
    delta = reward + np.float32(gamma) * next_value - value
    decay = np.where(ended, np.float32(0), np.float32(gamma * lam))
    found = np.empty_like(delta)
    following = np.zeros_like(delta[0])
    for step in range(len(delta) - 1, -1, -1):
        following = delta[step] + decay[step] * following
        found[step] = following
    return np.asarray(found)


def _of_each(arrays: Any, function: Callable[[np.ndarray], np.ndarray]) -> Any:
    if isinstance(arrays, dict):
        return {name: function(array) for name, array in arrays.items()}
    return function(arrays)


_log = logging.getLogger("towerpack_dataflow")
_NUMBERS = ("reward", "value", "log_probability", "truncation_value")
_SWITCHES = ("terminated", "truncated", "valid")


@final
class RolloutBuffer:
    """Collects a number of steps of some environments, computes advantages, and returns batches of the steps.

    Call in turn: `add` once per step, `finish`, `minibatches`, and `clear`. Advantages follow Schulman et al.
    2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation". The value after a
    termination is 0; after a truncation, it is that of the last observation.

    Args:
        observation_space: space of one observation: any object with `shape` and `dtype`, a pair of both, or a
            dict of these.
        action_space: space of one action, likewise.
        steps: number of steps of each environment.
        environments: number of environments.
        gamma: discount of rewards.
        lam: discount of estimates over more steps, lambda in the paper.
        seed: seed of the order of minibatches; by default one is drawn and logged.

    Raises:
        ArgumentError: an argument is invalid.
        ArgumentTypeError: a space does not consist of arrays.

    Example:
        >>> rollout = RolloutBuffer(((), "float32"), ((), "int64"), steps=2, environments=1, seed=1)
        >>> for time in range(2):
        ...     rollout.add([time], [0], [1.0], [False], [False], value=[0.0], log_probability=[-0.7])
        >>> rollout.finish([0.0])
        >>> [batch.observation.shape for batch in rollout.minibatches(2)]
        [(2,)]
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        steps: int,
        environments: int,
        *,
        gamma: float = 0.99,
        lam: float = 0.95,
        seed: int | None = None,
    ) -> None:
        """Allocates memory for all steps."""
        self._steps = arguments.count("steps", steps)
        self._lead = (arguments.count("environments", environments),)
        for name, value in [("gamma", gamma), ("lam", lam)]:
            if not 0 <= value <= 1:
                raise ArgumentError(f"{name} is a number from 0 to 1; received {value!r}")
        self._gamma, self._lam = float(gamma), float(lam)
        if seed is None:
            seed = draw_seed()
            _log.info("RolloutBuffer: drew seed %d", seed)
        self._random = np.random.default_rng(arguments.count("seed", seed, least=0, most=None))
        self._specs = {
            "observation": array_specs("observation_space", observation_space),
            "action": array_specs("action_space", action_space),
        }
        self._columns = {
            f"{kind}.{key}": np.zeros((self._steps, *self._lead, *spec.shape), spec.dtype)
            for kind, specs in self._specs.items()
            for key, spec in specs.items()
        }
        self._columns |= {name: np.zeros((self._steps, *self._lead), np.float32) for name in _NUMBERS}
        self._columns |= {name: np.zeros((self._steps, *self._lead), bool) for name in _SWITCHES}
        self._advantage: np.ndarray | None = None
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of steps added per environment."""
        return self._count

    @property
    def steps(self) -> int:
        """The largest number of steps per environment."""
        return self._steps

    @property
    def environments(self) -> int:
        """The number of environments."""
        return self._lead[0]

    @property
    def full(self) -> bool:
        """Whether all steps were added."""
        return self._count == self._steps

    def add(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        *,
        value: Any,
        log_probability: Any,
        truncation_value: Any = None,
        valid: Any = None,
    ) -> None:
        """Adds one step of all environments, which are the first axis of all arguments.

        Args:
            observation: observation before the step.
            action: action of the step.
            reward: reward of the step; finite.
            terminated: whether the episode has terminated.
            truncated: whether the episode was truncated.
            value: estimated value of `observation`.
            log_probability: log probability of the action.
            truncation_value: value of the last observation where the episode was truncated; other elements
                are ignored. Not needed in gymnasium's autoreset mode `NEXT_STEP`, where the next step has it.
            valid: False where the step was only a reset, as in mode `NEXT_STEP`; such a step is in no batch.
                By default all steps are valid.

        Raises:
            ArgumentError: a shape or a value is invalid, or the rollout is full.
            ArgumentTypeError: a dtype differs.
        """
        if self.full:
            raise ArgumentError(
                f"a rollout has {self._steps} steps; received another one. Call finish(), minibatches(), "
                f"clear()"
            )
        row: dict[str, Any] = {
            "reward": rewards("reward", reward, self._lead),
            "value": rewards("value", value, self._lead),
            "log_probability": rewards("log_probability", log_probability, self._lead),
            "terminated": switches("terminated", terminated, self._lead),
            "truncated": switches("truncated", truncated, self._lead),
            "valid": True if valid is None else switches("valid", valid, self._lead),
        }
        row["truncation_value"] = self._truncation_values(truncation_value, row["truncated"])
        for kind, given in [("observation", observation), ("action", action)]:
            parts = named(kind, given, self._specs[kind])
            for key, spec in self._specs[kind].items():
                row[f"{kind}.{key}"] = checked_array(kind, parts[key], spec, self._lead)
        for name, array in row.items():
            self._columns[name][self._count] = array
        self._count += 1

    def finish(self, next_value: Any) -> None:
        """Computes the advantages of all steps.

        Args:
            next_value: estimated values of the observations after the last step.

        Raises:
            ArgumentError: steps are missing, a value is invalid, or the value after a truncation is unknown.
        """
        if not self.full:
            raise ArgumentError(
                f"finish() needs {self._steps} steps; received {self._count}. Add the others first"
            )
        last = rewards("next_value", next_value, self._lead)
        kept = self._columns
        after = np.concatenate([kept["value"][1:], last[None]])
        given = ~np.isnan(kept["truncation_value"])
        only_reset = np.concatenate([~kept["valid"][1:], np.ones((1, *self._lead), bool)])
        cut = kept["truncated"] & ~kept["terminated"] & kept["valid"]
        if (unknown := cut & ~given & ~only_reset).any():
            step, environment = map(int, np.argwhere(unknown)[0])
            raise ArgumentError(
                f"truncation_value is needed where an episode was truncated; received none at step {step} of "
                f"environment {environment}, and the next step there is valid, so it is of another episode"
            )
        after = np.where(cut & given, kept["truncation_value"], after)
        after[kept["terminated"]] = 0
        ended = kept["terminated"] | kept["truncated"] | ~kept["valid"]
        self._advantage = advantages(kept["reward"], kept["value"], after, ended, self._gamma, self._lam)

    def minibatches(self, size: int, epochs: int = 1) -> Iterator[RolloutBatch]:
        """Yields all valid steps in a new order in each epoch.

        The number of batches does not depend on the number of valid steps: they are divided evenly among as
        many batches as all steps would fill.

        Args:
            size: largest number of steps in a batch.
            epochs: number of times each step is yielded.

        Raises:
            ArgumentError: the rollout is smaller than a batch.
            TooFewTransitionsError: `finish()` was not called.
        """
        size = arguments.count("size", size)
        if size > self._steps * self._lead[0]:
            raise ArgumentError(
                f"size is at most {self._steps * self._lead[0]}, the steps of a rollout; received {size}"
            )
        if self._advantage is None:
            raise TooFewTransitionsError("the rollout has no advantages; received no call of finish() yet")
        return self._batches(size, arguments.count("epochs", epochs), self._advantage.reshape(-1))

    def clear(self) -> None:
        """Drops all steps before the next rollout."""
        self._count, self._advantage = 0, None

    def state_dict(self) -> dict[str, Any]:
        """Returns everything except the steps, ready for JSON."""
        return {
            "version": 1,
            "rollout": self._fingerprint(),
            "count": self._count,
            "finished": self._advantage is not None,
            "random": self._random.bit_generator.state,
        }

    def link_into(self, directory: str | os.PathLike[str]) -> None:
        """Writes the steps so far to a directory; creates it if missing.

        Raises:
            ArgumentError: the directory contains files of a memory.
            OSError: the directory cannot be written to.
        """
        place = Path(directory)
        check_target(place)
        arrays = {name: column[: self._count] for name, column in self._columns.items()}
        if self._advantage is not None:
            arrays["advantage"] = self._advantage
        contents = {"version": 1, "of": self._fingerprint(), "count": self._count}
        write_contents({**contents, "arrays": write_arrays(arrays, place)}, place)

    def load_state_dict(
        self, state: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
    ) -> None:
        """Restores the rollout of a state; a rejected state changes nothing.

        Args:
            state: a result of `state_dict()`.
            directory: the directory filled by `link_into()`; None only for the state of a rollout without
                steps.

        Raises:
            StateError: the state belongs to another rollout, or to another time than the directory.
            SegmentError: a file is missing or damaged; the error names it.
        """
        if (
            not isinstance(state, Mapping)
            or state.get("version") != 1
            or state.get("rollout") != self._fingerprint()
        ):
            raise StateError(
                f"the state does not belong to such a rollout, {self._fingerprint()}; received "
                f"{str(state)[:300]}"
            )
        arrays: dict[str, np.ndarray] = {}
        if directory is not None:
            contents = read_contents(Path(directory))
            if contents.get("count") != state["count"]:
                raise StateError(
                    f"the state has {state['count']} steps, but {directory} has {contents.get('count')}; "
                    "save both at the same time"
                )
            if contents.get("of", self._fingerprint()) != self._fingerprint():
                raise StateError(
                    f"{directory} belongs to another rollout, {contents['of']}; this one is "
                    f"{self._fingerprint()}"
                )
            arrays = read_arrays(contents["arrays"], Path(directory))
        elif state["count"]:
            raise StateError(f"the {state['count']} steps of this state are in files; received no directory")
        self._random.bit_generator.state = state["random"]
        self._count, self._advantage = state["count"], arrays.pop("advantage", None)
        for name, array in arrays.items():
            self._columns[name][: self._count] = array

    def _batches(self, size: int, epochs: int, advantage: np.ndarray) -> Iterator[RolloutBatch]:
        (valid,) = np.nonzero(self._columns["valid"].reshape(-1))
        sizes = map(len, np.array_split(valid, -(-len(advantage) // size)))
        ends = list(accumulate(sizes, initial=0))
        steps = self._all_steps(advantage)
        for _ in range(epochs):
            # Reordering a whole epoch is faster than gathering each batch, and `take` is up to seven times as
            # fast as an index.
            take = functools.partial(np.take, indices=self._random.permutation(valid), axis=0)
            epoch = RolloutBatch(*(_of_each(arrays, take) for arrays in steps))
            yield from (epoch.part(begin, end) for begin, end in pairwise(ends))

    def _all_steps(self, advantage: np.ndarray) -> RolloutBatch:
        """Returns all steps in order, also the invalid ones."""
        kinds = {
            kind: nested({key: self._flat(f"{kind}.{key}") for key in specs})
            for kind, specs in self._specs.items()
        }
        value = self._flat("value")
        return RolloutBatch(
            **kinds,
            value=value,
            log_probability=self._flat("log_probability"),
            advantage=advantage,
            value_target=advantage + value,
        )

    def _flat(self, name: str) -> np.ndarray:
        column = self._columns[name]
        return column.reshape(-1, *column.shape[2:])

    def _truncation_values(self, given: Any, truncated: np.ndarray) -> np.ndarray | float:
        """Returns the values where episodes were truncated, and NaN elsewhere."""
        if given is None:
            return np.nan
        values = np.full(self._lead, np.nan, np.float32)
        array = numbers("truncation_value", given, self._lead)
        values[truncated] = rewards("truncation_value", array[truncated], (int(truncated.sum()),))
        return values

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "environments": self._lead[0],
            "arrays": {
                f"{kind}.{key}": [list(spec.shape), spec.dtype.str]
                for kind, specs in self._specs.items()
                for key, spec in specs.items()
            },
        }
