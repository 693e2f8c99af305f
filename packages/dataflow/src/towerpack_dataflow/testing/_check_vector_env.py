"""Checks that a vector environment yields the transitions of its environments in every autoreset mode."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ._check_dataflow import ConformanceError, shortened

__all__ = ["check_vector_env"]

MODES = ("NextStep", "SameStep", "Disabled")
_WHY = (
    "The results of a step must not depend on the time of resets: see "
    "https://farama.org/Vector-Autoreset-Mode"
)


@final
class _Transition(NamedTuple):
    """One step of one environment, with the last observation of the same episode."""

    before: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    after: Any


History = list[list[_Transition]]


def check_vector_env(
    make: Callable[[str], Any],
    single: Callable[[], Any] | None = None,
    *,
    modes: Sequence[str] = MODES,
    steps: int = 100,
    seed: int = 7,
    episode_seed: Callable[[int, int, int], int | None] | None = None,
) -> None:
    """Checks that each autoreset mode yields the transitions of stepping one environment after another.

    In all modes, each environment takes the same actions in the same episodes, so its observations, rewards
    and ends must be the same: those of a single environment, if `single` creates one. `terminated` and
    `truncated` are compared separately. A second run with the same seed must repeat the first.

    The check needs no pytest, and uses only gymnasium's interface of vector environments.

    Args:
        make: creates a vector environment with this `autoreset_mode`, a value of gymnasium's `AutoresetMode`.
        single: creates one of its environments; `None` if it has none in Python.
        modes: the modes supported by the vector environment.
        steps: number of steps of each vector environment; some episodes must end within them.
        seed: seed for `reset()`.
        episode_seed: returns the reset seed of environment `i` for episode `e`, given (seed, i, e); `None`
            for none. By default gymnasium's rule: seed + i for the first, none for later ones.

    Raises:
        ConformanceError: names mode, environment and transition of the first difference.

    Example:
        >>> import gymnasium
        >>> def single():
        ...     return gymnasium.make("CartPole-v1")
        >>> def make(mode):
        ...     return gymnasium.vector.SyncVectorEnv([single] * 2, autoreset_mode=mode)
        >>> check_vector_env(make, single)
    """
    first: History | None = None
    for mode in modes:
        history = _run(make, mode, steps, seed)
        _compare(_run(make, mode, steps, seed), history, f"a second run in mode {mode}, with the same seed")
        if not any(step.terminated or step.truncated for part in history for step in part[:-1]):
            raise ConformanceError(
                f"no episode ended in {steps} steps of mode {mode}, so nothing was reset; increase steps"
            )
        if first is None:
            first = history
        else:
            _compare(history, first, f"mode {mode} compared with mode {modes[0]}")
    if single is not None and first is not None:
        rule = episode_seed or (lambda seed, env, episode: seed + env if episode == 0 else None)
        expected = [_stepped_alone(single, env, len(part), seed, rule) for env, part in enumerate(first)]
        _compare(first, expected, f"mode {modes[0]} compared with single environments")


@final
class _Actions:
    """Random actions that depend only on environment, episode and step."""

    def __init__(self, space: Any, env: int) -> None:
        self._space, self._env, self._episode = copy.deepcopy(space), env, -1
        self.begin()

    def begin(self) -> None:
        """Starts the next episode."""
        self._episode += 1
        self._space.seed(1000 * self._env + self._episode)

    def next(self) -> Any:
        """Returns the next action."""
        return self._space.sample()


def _run(make: Callable[[str], Any], mode: str, steps: int, seed: int) -> History:
    envs = make(mode)
    try:
        return _Recording(envs, mode, seed).run(steps)
    finally:
        envs.close()


@final
class _Recording:
    """A run of a vector environment, as transitions of each environment."""

    def __init__(self, envs: Any, mode: str, seed: int) -> None:
        declared = envs.metadata.get("autoreset_mode")
        if declared is None or getattr(declared, "value", declared) != mode:
            raise ConformanceError(
                f'metadata["autoreset_mode"] is {declared!r}, but it was created with {mode!r}'
            )
        self._envs, self._mode = envs, mode
        self._actions = [_Actions(envs.single_action_space, env) for env in range(envs.num_envs)]
        self._before = self._each(envs.reset(seed=seed)[0])
        self._over = [False] * envs.num_envs
        self._history: History = [[] for _ in self._actions]

    def run(self, steps: int) -> History:
        """Takes steps and returns the transitions."""
        from gymnasium.vector.utils import concatenate, create_empty_array

        space, count = self._envs.single_action_space, self._envs.num_envs
        for _ in range(steps):
            chosen = [actions.next() for actions in self._actions]
            batch = concatenate(space, chosen, create_empty_array(space, count))
            self._take(chosen, self._envs.step(batch))
        return self._history

    def _take(self, chosen: list[Any], made: tuple[Any, ...]) -> None:
        observations, rewards, terminated, truncated, infos = made
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            if np.asarray(flags).dtype != np.bool_ or np.shape(flags) != (len(chosen),):
                raise ConformanceError(f"{name} is {shortened(flags)}; expected {len(chosen)} booleans")
        after = self._each(observations)
        for env, action in enumerate(chosen):
            ends = (bool(terminated[env]), bool(truncated[env]))
            if self._over[env] and self._mode == "NextStep":
                self._check_reset_step(env, rewards[env], ends)
                self._actions[env].begin()
            else:
                last = self._last(env, infos) if any(ends) and self._mode == "SameStep" else after[env]
                step = _Transition(self._before[env], action, float(rewards[env]), *ends, last)
                self._history[env].append(step)
            self._over[env] = any(ends)
            if any(ends) and self._mode != "NextStep":
                self._actions[env].begin()
        self._before = after
        if self._mode == "Disabled" and any(self._over):
            mask = np.array(self._over)
            again = self._each(self._envs.reset(options={"reset_mask": mask})[0])
            self._before = [new if over else old for new, over, old in zip(again, self._over, after)]

    def _check_reset_step(self, env: int, reward: Any, ends: tuple[bool, bool]) -> None:
        if float(reward) != 0.0 or any(ends):
            raise ConformanceError(
                f"environment {env} was reset by a step of mode NextStep, with reward {reward}, "
                f"terminated {ends[0]} and truncated {ends[1]}; expected 0.0, False, False. {_WHY}"
            )

    def _last(self, env: int, infos: Mapping[str, Any]) -> Any:
        mask = infos.get("_final_obs")  # ale-py has none
        if "final_obs" not in infos or not (mask is None or mask[env]):
            raise ConformanceError(
                f"environment {env} ended its episode in mode SameStep, but infos have no final_obs for it; "
                f"they have {sorted(infos)}. Without it, a truncated episode cannot be bootstrapped"
            )
        return copy.deepcopy(infos["final_obs"][env])

    def _each(self, observations: Any) -> list[Any]:
        from gymnasium.vector.utils import iterate

        return [copy.deepcopy(one) for one in iterate(self._envs.observation_space, observations)]


def _stepped_alone(
    single: Callable[[], Any], number: int, count: int, seed: int, rule: Callable[[int, int, int], int | None]
) -> list[_Transition]:
    env, episode = single(), 0
    try:
        actions = _Actions(env.action_space, number)
        before = env.reset(seed=rule(seed, number, 0))[0]
        history: list[_Transition] = []
        while len(history) < count:
            action = actions.next()
            after, reward, terminated, truncated, _ = env.step(action)
            step = (before, action, float(reward), bool(terminated), bool(truncated), after)
            history.append(_Transition(*copy.deepcopy(step)))
            before = after
            if terminated or truncated:
                episode += 1
                actions.begin()
                before = env.reset(seed=rule(seed, number, episode))[0]
        return history
    finally:
        env.close()


def _compare(received: History, expected: History, what: str) -> None:
    for env, (ones, others) in enumerate(zip(received, expected)):
        for number, (one, other) in enumerate(zip(ones, others)):
            for name, value, wanted in zip(_Transition._fields, one, other):
                if not _equal(value, wanted):
                    raise ConformanceError(
                        f"{what}: {name!r} of transition {number} of environment {env} is "
                        f"{shortened(value)}; expected {shortened(wanted)}. {_WHY}"
                    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    first, second = np.asarray(one), np.asarray(other)
    return bool(
        np.array_equal(first, second, equal_nan=first.dtype.kind in "fc" and second.dtype.kind in "fc")
    )
