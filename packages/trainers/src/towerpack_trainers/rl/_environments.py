"""Steps in vector environments: all autoreset modes, groups of environments, episodes, exact states."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from .._errors import ConfigError, EnvironmentStepError
from ._policy_model import ActionSpec, action_spec
from ._protocols import Environments, EnvironmentState, VectorEnvironments

__all__ = [
    "Episode",
    "FinishedEpisodes",
    "GroupedSteps",
    "Transitions",
    "VectorSteps",
    "autoreset_mode",
    "state_of",
]

_log = logging.getLogger("towerpack_trainers")


_KEPT = 100


@final
class Episode(NamedTuple):
    """A finished episode.

    Attributes:
        total: the sum of its rewards, not discounted: its return.
        length: the number of its steps.

    Example:
        >>> Episode(total=200.0, length=200).total
        200.0
    """

    total: float
    length: int


@final
class FinishedEpisodes:
    """Sums up the rewards of each environment's episode, and keeps the latest finished episodes.

    Args:
        environments: the number of environments.

    Attributes:
        last: the last 100 episodes.
        new: the episodes since `take_new`.
    """

    def __init__(self, environments: int) -> None:
        self._totals = np.zeros(environments)
        self._lengths = np.zeros(environments, np.int64)
        self.last: deque[Episode] = deque(maxlen=_KEPT)
        self.new: list[Episode] = []

    def begin_anew(self, first: int, count: int) -> None:
        """Drops the sums of unfinished episodes.

        Args:
            first: the number of the first environment.
            count: the number of environments.
        """
        self._totals[first : first + count] = 0
        self._lengths[first : first + count] = 0

    def count(self, reward: np.ndarray, ended: np.ndarray, valid: np.ndarray, first: int = 0) -> None:
        """Counts one step of some environments.

        Args:
            reward: the reward of each environment.
            ended: bool, whether its episode has ended with the step.
            valid: bool; False if the step only reset the environment.
            first: the number of the first of these environments.
        """
        totals = self._totals[first : first + len(reward)]
        lengths = self._lengths[first : first + len(reward)]
        totals += reward * valid
        lengths += valid
        if np.count_nonzero(ended):
            for number in np.flatnonzero(ended & valid):
                self.add(Episode(float(totals[number]), int(lengths[number])))
            totals[ended] = 0
            lengths[ended] = 0

    def add(self, episode: Episode) -> None:
        """Adds an episode that was counted elsewhere."""
        self.last.append(episode)
        self.new.append(episode)

    def take_new(self) -> list[Episode]:
        """Returns the episodes that have ended since the last call."""
        new, self.new = self.new, []
        return new

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state, as arrays."""
        last = np.array([*self.last], np.float64).reshape(-1, 2)
        new = np.array(self.new, np.float64).reshape(-1, 2)
        return {"totals": self._totals, "lengths": self._lengths, "last_episodes": last, "new_episodes": new}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        self._totals, self._lengths = arrays["totals"].copy(), arrays["lengths"].copy()
        self.last.clear()
        self.last.extend(_episodes(arrays["last_episodes"]))
        self.new = _episodes(arrays["new_episodes"])


def _episodes(rows: np.ndarray) -> list[Episode]:
    return [Episode(float(total), int(length)) for total, length in rows]


_METHODS = ("state_dict", "load_state_dict")


def state_of(envs: Any, given: Any) -> EnvironmentState | None:
    """Returns the state of vector environments, or of a list of groups of them.

    Args:
        envs: the environments, or the list.
        given: their state, such as `VectorEnvState(envs)`, or a list with one for each group; None: that of
            the environments, if they have one.

    Raises:
        ConfigError: `given` is not a state, or has a wrong number of groups.
    """
    if isinstance(envs, (list, tuple)):
        return _state_of_groups(envs, given)
    if given is None and all(hasattr(envs, name) for name in _METHODS):
        given = envs
    missing = [name for name in _METHODS if given is not None and not hasattr(given, name)]
    if missing:
        raise ConfigError(
            f"env_state={given!r} has no {' and no '.join(missing)}. Use "
            "towerpack_dataflow.envs.VectorEnvState(envs)."
        )
    if given is None or not getattr(given, "exact", True):
        _log.info(
            "A resumed run will reset these environments: their state cannot be saved. To resume exactly, "
            "use towerpack_dataflow.envs.ProcessVectorEnv; or env_state=VectorEnvState(envs), if the "
            "environments support it."
        )
    return given  # type: ignore[no-any-return]


def _state_of_groups(envs: Sequence[Any], given: Any) -> EnvironmentState | None:
    states = [None] * len(envs) if given is None else given
    if not isinstance(states, (list, tuple)) or len(states) != len(envs):
        raise ConfigError(
            f"env_state={given!r}: expected a list of {len(envs)} states, one for each group of envs."
        )
    found = [state_of(group, state) for group, state in zip(envs, states)]
    return None if None in found else _GroupStates([each for each in found if each is not None])


@final
class _GroupStates:
    """The states of several groups of environments.

    Attributes:
        exact: whether all of them continue exactly.
    """

    def __init__(self, states: Sequence[EnvironmentState]) -> None:
        self._states = states
        self.exact = all(getattr(state, "exact", True) for state in states)

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all groups."""
        return {"groups": [state.state_dict() for state in self._states]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the states of all groups."""
        for group, kept in zip(self._states, state["groups"]):
            group.load_state_dict(kept)


@final
class Transitions(NamedTuple):
    """One step of each environment. All arrays have the environments as their first axis.

    Attributes:
        reward: float.
        terminated: bool, whether the episode has terminated.
        truncated: bool, whether it was truncated.
        next_observation: the observation after the step; at the end of an episode, its last observation.
        valid: bool; False if the step only reset the environment, as in autoreset mode "NextStep".
    """

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: np.ndarray
    valid: np.ndarray


@final
class VectorSteps:
    """Steps some environments, in any of gymnasium's three autoreset modes.

    Args:
        envs: the environments.
        action: the spec of their actions in the graph.
        episodes: the episode counter; None: a new one.
        first: the number of the first environment in the counter.

    Attributes:
        envs: the given environments.
        mode: the autoreset mode: "NEXT_STEP", "SAME_STEP" or "DISABLED".
        observation: the next observations for the agent.
        episodes: the returns of the finished episodes.

    Raises:
        ConfigError: the environments have an unknown autoreset mode.
    """

    def __init__(
        self,
        envs: VectorEnvironments,
        action: ActionSpec,
        episodes: FinishedEpisodes | None = None,
        first: int = 0,
    ) -> None:
        self.envs, self._action, self._first = envs, action, first
        self.mode = autoreset_mode(envs)
        self.episodes = FinishedEpisodes(envs.num_envs) if episodes is None else episodes
        self._resets_next = np.zeros(envs.num_envs, bool)
        self._shape = (envs.num_envs, *envs.single_observation_space.shape)
        self._dtype = np.dtype(envs.single_observation_space.dtype)
        self._steps = 0
        self._sent: np.ndarray | None = None
        self._all_valid = np.ones(envs.num_envs, bool)
        # Whether each step writes to the same memory, as in gymnasium with copy=False; None until two steps.
        self._reuses_memory: bool | None = None
        self._first_received: np.ndarray | None = None

    @property
    def resets_by_next_step(self) -> bool:
        """Whether autoreset mode is NEXT_STEP."""
        return self.mode == "NEXT_STEP"

    def reset(self, seed: int) -> None:
        """Begins new episodes.

        Args:
            seed: the seed for the environments' `reset`.

        Raises:
            EnvironmentStepError: an environment failed, or returned an invalid value.
        """
        self._resets_next = np.zeros(self.envs.num_envs, bool)
        self._sent = None
        self.episodes.begin_anew(self._first, self.envs.num_envs)
        self.observation = self._reset(seed=seed)

    def send(self, actions: np.ndarray) -> None:
        """Begins a step if the environments support asynchronous steps; otherwise `receive` makes it.

        Args:
            actions: the actions from the graph.

        Raises:
            EnvironmentStepError: an environment failed.
        """
        actions = self._action.for_environment(actions)
        self._steps += 1
        if hasattr(self.envs, "send"):
            try:
                self.envs.send(actions)
            except Exception as error:
                self._raise_named(error, "step")
        self._sent = actions

    def receive(self) -> Transitions:
        """Returns the result of the step that was sent, and stores the new observations.

        Raises:
            EnvironmentStepError: an environment failed, or returned an invalid value.
        """
        assert self._sent is not None
        try:
            result = self.envs.recv() if hasattr(self.envs, "recv") else self.envs.step(self._sent)
            observation, reward, terminated, truncated, infos = result
        except Exception as error:
            self._raise_named(error, "step")
        self._sent = None
        observation, reward = self._kept(self._checked(observation)), self._checked_rewards(reward)
        valid = ~self._resets_next if np.count_nonzero(self._resets_next) else self._all_valid
        terminated, truncated = self._flags("terminated", terminated), self._flags("truncated", truncated)
        ended = terminated | truncated
        self.episodes.count(reward, ended, valid, self._first)
        after = observation
        if self.mode == "NEXT_STEP":
            self._resets_next = ended
        elif ended.any():
            after = self._last_observations(observation, ended, infos)
            if self.mode == "DISABLED":
                observation = self._reset(options={"reset_mask": ended})
        self.observation = observation
        return Transitions(reward, terminated, truncated, after, valid)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state apart from that of environments and episodes, as arrays."""
        return {"observation": self.observation, "resets_next": self._resets_next}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        self.observation, self._resets_next = arrays["observation"], arrays["resets_next"]

    def _reset(self, **arguments: Any) -> np.ndarray:
        try:
            observation, _ = self.envs.reset(**arguments)
        except Exception as error:
            self._raise_named(error, "reset before step")
        return self._checked(observation).copy()  # the next step may write to it

    def _kept(self, observation: np.ndarray) -> np.ndarray:
        """Returns an observation that stays unchanged in the next step."""
        if self._reuses_memory is None:
            if self._first_received is None:
                self._first_received = observation
                return observation.copy()
            self._reuses_memory = np.may_share_memory(observation, self._first_received)
            self._first_received = None
        return observation.copy() if self._reuses_memory else observation

    def _raise_named(self, error: Exception, call: str) -> NoReturn:
        """Adds the step to an error of the environments, unless the error already names it."""
        if type(error).__module__.startswith("towerpack_"):
            raise error
        number = max(self._steps, 1)
        count, kind = self.envs.num_envs, type(self.envs).__name__
        which = f"environment {self._first}" if count == 1 else f"one of {count} environments"
        raise EnvironmentStepError(
            f"{which.capitalize()} of {kind} failed in {call} {number}: {type(error).__name__}: {error}"
            f"{'' if count == 1 else '. Use towerpack_dataflow.envs.ProcessVectorEnv to see which one.'}"
        ) from error

    def _last_observations(self, observation: np.ndarray, ended: np.ndarray, infos: Any) -> np.ndarray:
        if self.mode == "DISABLED":
            return observation
        if "final_obs" not in infos:
            number = self._first + int(np.argmax(ended))
            raise EnvironmentStepError(
                f"Environment {number}, step {self._steps}: its episode has ended, and the infos of "
                'autoreset mode "SameStep" have no "final_obs", which the next value requires; they have '
                f"{sorted(infos)}."
            )
        last = observation.copy()
        for index in np.flatnonzero(ended):
            last[index] = infos["final_obs"][index]
        return last

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        fits = array.dtype == self._dtype or np.can_cast(array.dtype, self._dtype, "same_kind")
        if array.shape != self._shape or not fits:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned observations of shape {array.shape} and "
                f"dtype {array.dtype}; their spaces declare {self._shape} and {self._dtype}."
            )
        return array

    def _checked_rewards(self, reward: Any) -> np.ndarray:
        array = np.asarray(reward)
        if array.shape != self._shape[:1]:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned rewards of shape {array.shape}; expected one "
                f"for each of {self.envs.num_envs} environments."
            )
        if np.count_nonzero(np.isfinite(array)) < array.size:  # faster than `all` for few environments
            number = int(np.argmin(np.isfinite(array)))
            raise EnvironmentStepError(
                f"Environment {self._first + number}, step {self._steps}: the reward is {array[number]}; "
                "expected a finite number. Fix the environment, or use a wrapper that replaces such rewards."
            )
        return array

    def _flags(self, name: str, flags: Any) -> np.ndarray:
        array = np.asarray(flags)
        if array.shape != self._shape[:1] or array.dtype != bool:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned {name} of shape {array.shape} and dtype "
                f"{array.dtype}; expected a bool for each of {self.envs.num_envs} environments."
            )
        return array


def autoreset_mode(envs: VectorEnvironments) -> str:
    """Returns the autoreset mode of vector environments: "NEXT_STEP", "SAME_STEP" or "DISABLED".

    Raises:
        ConfigError: the mode is unknown.
    """
    mode = envs.metadata.get("autoreset_mode", "NextStep")
    name = str(getattr(mode, "name", mode)).replace("_", "").lower()
    known = {"nextstep": "NEXT_STEP", "samestep": "SAME_STEP", "disabled": "DISABLED"}
    if name not in known:
        raise ConfigError(
            f"The environments have the autoreset mode {mode!r}; expected one of gymnasium's: NextStep, "
            "SameStep, Disabled."
        )
    return known[name]


@final
class GroupedSteps:
    """Steps one group of environments or several, as if they were one.

    Args:
        envs: vector environments, or a list of them, with the same spaces.

    Attributes:
        parts: the groups.
        num_envs: the total number of environments.
        episodes: the returns of the finished episodes of all groups.

    Raises:
        ConfigError: the groups differ in more than their number of environments, or agents do not support
            such actions.
    """

    def __init__(self, envs: Environments) -> None:
        groups: list[Any] = list(envs) if isinstance(envs, (list, tuple)) else [envs]
        if not groups:
            raise ConfigError("envs=[]: expected vector environments, or a list of two.")
        firsts = np.cumsum([0, *(group.num_envs for group in groups)])
        self.num_envs = int(firsts[-1])
        self.episodes = FinishedEpisodes(self.num_envs)
        self.parts = tuple(
            VectorSteps(group, action_spec(group.single_action_space), self.episodes, int(first))
            for group, first in zip(groups, firsts)
        )
        self._ends = firsts[1:-1]
        kinds = {str(_kind(part)) for part in self.parts}
        if len(kinds) > 1:
            raise ConfigError(
                f"envs=[...]: the groups must have the same spaces and autoreset mode; received "
                f"{' and '.join(sorted(kinds))}."
            )

    @property
    def resets_by_next_step(self) -> bool:
        """Whether autoreset mode is NEXT_STEP."""
        return self.parts[0].resets_by_next_step

    @property
    def overlaps(self) -> bool:
        """Whether a group can step while the policy acts for another one."""
        return len(self.parts) > 1 and all(hasattr(part.envs, "send") for part in self.parts)

    @property
    def started(self) -> bool:
        """Whether there are observations to act for."""
        return hasattr(self.parts[-1], "observation")

    @property
    def observation(self) -> np.ndarray:
        """The next observations for the agent."""
        observations: np.ndarray = _joined([part.observation for part in self.parts])
        return observations

    def reset(self, seed: int) -> None:
        """Begins new episodes in all environments.

        Args:
            seed: the seed of the first environment; each further environment adds 1.
        """
        for part, first in zip(self.parts, [0, *self._ends]):
            part.reset(seed + int(first))

    def send(self, actions: np.ndarray) -> None:
        """Begins a step of all environments; see `VectorSteps`."""
        for part, own in zip(self.parts, np.split(actions, self._ends) if len(self._ends) else [actions]):
            part.send(own)

    def receive(self) -> Transitions:
        """Returns the result of the step that was sent."""
        return self.joined([part.receive() for part in self.parts])

    def joined(self, happened: Sequence[Transitions]) -> Transitions:
        """Joins the steps of all groups into one."""
        return happened[0] if len(happened) == 1 else Transitions(*map(_joined, zip(*happened)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state apart from the environments' own, as arrays."""
        kept = [part.arrays() for part in self.parts]
        return {
            **{name: _joined([each[name] for each in kept]) for name in kept[0]},
            **self.episodes.arrays(),
        }

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        names = ("observation", "resets_next")
        for number, part in enumerate(self.parts):
            part.load_arrays({name: np.split(arrays[name], self._ends)[number] for name in names})
        self.episodes.load_arrays(arrays)


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _kind(part: VectorSteps) -> tuple[Any, ...]:
    """Returns the properties that must be equal in all groups."""
    observation, action = part.envs.single_observation_space, part.envs.single_action_space
    spaces = tuple((tuple(space.shape), np.dtype(space.dtype).name) for space in (observation, action))
    return (*spaces, getattr(action, "n", None), part.mode)
