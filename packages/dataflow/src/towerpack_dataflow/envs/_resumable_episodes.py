"""The current episode of each environment, and the data to repeat it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium.vector import AutoresetMode

from .._errors import EnvCallError, StateError
from ._action_log import ActionLog, packed_actions, unpacked_actions
from ._env_workers import EnvWorkers
from ._step_memory import call_text

__all__ = ["ResumableEpisodes"]

_log = logging.getLogger("towerpack_dataflow")
_KEYS = {"version", "autoreset_mode", "action_space", "seeds", "episodes", "options", "pending", "actions"}


@final
class ResumableEpisodes:
    """Resets and steps environments in their workers, and records the data for a state.

    Args:
        workers: workers of the environments.
        places: the worker and the row of each environment.
        seed: seed of all environments.
        mode: the name of the autoreset mode.
        exact: whether a state continues the current episodes instead of starting the next ones.

    Attributes:
        pending: number of environments with an action sent but no result received.
    """

    def __init__(
        self,
        workers: EnvWorkers,
        places: Sequence[tuple[int, int]],
        seed: int,
        mode: AutoresetMode,
        exact: bool,
    ) -> None:
        """Starts before the first episodes."""
        self._workers, self._places, self._mode, self._exact = workers, places, mode, exact
        count = len(places)
        self._seeds = [seed] * count
        self._episode = np.full(count, -1)
        self._digest = np.zeros(count, np.uint32)
        self._in_episode = np.zeros(count, np.bool_)
        self._options: list[Any] = [None] * count
        self._is_pending = np.zeros(count, np.bool_)
        self._ended = np.zeros(count, np.bool_)
        self._log = ActionLog(workers.properties.action.parts, count)
        self.pending = 0

    def reset(
        self, envs: Sequence[int], seeds: Sequence[int | None], options: Mapping[str, Any] | None
    ) -> dict[int, dict[str, Any]]:
        """Starts new episodes and returns the infos of the environments.

        Args:
            envs: their numbers.
            seeds: new seeds of all environments; `None` for one that continues with its next episode.
            options: for the environments.
        """
        orders: list[list[Any]] = [[] for _ in self._workers.index_ranges]
        for env in envs:
            worker, row = self._places[env]
            seed = seeds[env]
            episode = int(self._episode[env]) + 1 if seed is None else 0
            self._seeds[env] = self._seeds[env] if seed is None else seed
            orders[worker].append((row, self._seeds[env], episode, options))
            self._options[env] = None if options is None else dict(options)
        answers = self._workers.request("reset", [(order,) if order else None for order in orders])
        self._note_begun(list(envs))
        index_ranges = self._workers.index_ranges
        return {
            index_ranges[worker][0] + row: info
            for worker, part in enumerate(answers)
            for row, info in part or ()
        }

    def check_can_step(self, envs: np.ndarray) -> None:
        """Checks that these environments have an open episode.

        Raises:
            EnvCallError: one was never reset, or its episode has ended and autoreset is disabled.
        """
        if not self._in_episode[envs].all():
            raise EnvCallError("environments can be stepped only after reset(), which was not called")
        if self._mode is AutoresetMode.DISABLED and self._ended[envs].any():
            over = envs[self._ended[envs]].tolist()
            raise EnvCallError(
                f"the episodes of environments {over} have ended, and autoreset is disabled; reset these "
                'environments with reset(options={"reset_mask": mask}), or choose another autoreset_mode'
            )

    def send(self, envs: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Writes actions to the workers' memory, and requests a step."""
        whole = len(envs) == len(self._places) and bool((envs == np.arange(len(envs))).all())
        if self._exact:
            self._log.append(slice(None) if whole else envs, arrays)
        self._is_pending[envs] = True
        self.pending += len(envs)
        for number, (numbers, memory) in enumerate(zip(self._workers.index_ranges, self._workers.memories)):
            rows: Any = slice(None)
            here: Any = slice(numbers.start, numbers.stop)
            if not whole:
                here = np.flatnonzero((envs >= numbers.start) & (envs < numbers.stop))
                if not len(here):
                    continue
                rows = envs[here] - numbers.start
            for target, array in zip(memory.actions, arrays):
                target[rows] = array[here]
            memory.wanted[rows] = True
            self._workers.ring(number)

    def receive(self, envs: np.ndarray) -> None:
        """Records that the results of these environments were received."""
        self._is_pending[envs] = False
        self.pending -= len(envs)
        memories = self._workers.memories
        ended = np.concatenate([memory.terminated | memory.truncated for memory in memories])
        self._ended[envs] = ended[envs]
        self._digest[envs] = np.concatenate([memory.digest for memory in memories])[envs]
        episode = np.concatenate([memory.episode for memory in memories])
        begun = envs[episode[envs] != self._episode[envs]]
        if len(begun):
            self._note_begun(begun.tolist())
            for env in begun.tolist():
                self._options[env] = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, as JSON values."""
        properties, envs = self._workers.properties, range(len(self._places))
        return {
            "version": 1,
            "environments": list(properties.identities),
            "autoreset_mode": self._mode.value,
            "observation_space": str(properties.observation.space),
            "action_space": str(properties.action.space),
            "seeds": list(self._seeds),
            "episodes": self._episode.tolist(),
            "options": list(self._options),
            "pending": self._is_pending.tolist(),
            "actions": [packed_actions(self._log.actions(env)) for env in envs] if self._exact else None,
            "digests": self._digest.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Repeats the episodes of a state; its pending steps are in progress again.

        Raises:
            StateError: the state belongs to other environments, or these do not repeat their results.
        """
        self._check(state)
        self._seeds, self._options = list(state["seeds"]), list(state["options"])
        self._log = ActionLog(self._workers.properties.action.parts, len(self._places))
        if not self._exact:
            self._episode[:], self._in_episode[:] = state["episodes"], False
            return
        actions = [
            unpacked_actions(texts, self._workers.properties.action.parts) for texts in state["actions"]
        ]
        lasts = [len(given[0]) - waits for given, waits in zip(actions, state["pending"])]
        self._repeat(state["episodes"], actions, lasts)
        self._compare(state, lasts)
        self._log.fill([[array[:last] for array in given] for given, last in zip(actions, lasts)])
        waiting = np.flatnonzero(state["pending"])
        if len(waiting):
            parts = range(len(self._workers.properties.action.parts))
            self.send(waiting, [np.stack([actions[env][at][-1] for env in waiting]) for at in parts])

    def _repeat(
        self, episodes: Sequence[int], actions: Sequence[Sequence[np.ndarray]], lasts: Sequence[int]
    ) -> None:
        orders: list[list[Any]] = [[] for _ in self._workers.index_ranges]
        for env, (worker, row) in enumerate(self._places):
            if episodes[env] >= 0:
                begin = (self._seeds[env], episodes[env], self._options[env])
                orders[worker].append((row, (*begin, actions[env], lasts[env])))
        self._workers.request("replay", [(order,) if order else None for order in orders])
        self._note_begun(range(len(self._places)))

    def _compare(self, state: Mapping[str, Any], lasts: Sequence[int]) -> None:
        """Compares the results of the environments with those in the state."""
        if "digests" not in state:
            _log.warning(
                "This state of a ProcessVectorEnv is of an earlier release without a digest of the results: "
                "whether the environments continue from the same state is unknown."
            )
            return
        begun = np.array(state["episodes"]) >= 0
        other = np.flatnonzero(begun & (self._digest != np.array(state["digests"], np.uint32)))
        if len(other):
            self._in_episode[:] = False
            env = int(other[0])
            raise _not_repeated(env, state["episodes"][env], lasts[env] - 1, len(other))

    def _note_begun(self, envs: Sequence[int]) -> None:
        for env in envs:
            worker, row = self._places[env]
            memory = self._workers.memories[worker]
            self._episode[env] = memory.episode[row]
            self._ended[env] = memory.terminated[row] or memory.truncated[row]
            self._in_episode[env] = memory.episode[row] >= 0
            self._digest[env] = memory.digest[row]
        self._log.restart(list(envs))

    def _check(self, state: Mapping[str, Any]) -> None:
        if not _KEYS.issubset(state) or state["version"] != 1:
            raise StateError(
                f"this is not the state of a ProcessVectorEnv; received the keys {sorted(map(str, state))}"
            )
        properties = self._workers.properties
        here = {
            "number of environments": len(self._places),
            "autoreset_mode": self._mode.value,
            "action space": str(properties.action.space),
            "observation space": str(properties.observation.space),
            **{f"environment {number}": each for number, each in enumerate(properties.identities)},
        }
        there = {
            "number of environments": len(state["seeds"]),
            "autoreset_mode": state["autoreset_mode"],
            "action space": state["action_space"],
            "observation space": state.get("observation_space", here["observation space"]),
            **{f"environment {number}": each for number, each in enumerate(state.get("environments", ()))},
        }
        differences = {
            name: (there[name], mine) for name, mine in here.items() if there.get(name, mine) != mine
        }
        if differences:
            text = "; ".join(
                f"{name} {old} in the state, {new} here" for name, (old, new) in differences.items()
            )
            raise StateError(f"this state belongs to another ProcessVectorEnv: {text}", differences)
        if self._exact and state["actions"] is None:
            raise StateError(
                "this state was taken with exact=False, and has no actions to repeat; create the "
                "ProcessVectorEnv with exact=False"
            )


def _not_repeated(env: int, episode: int, step: int, count: int) -> StateError:
    more = f", and {count - 1} more environments" if count > 1 else ""
    return StateError(
        f"environment {env} is in another state than when this state was taken{more}: repeating the "
        f"actions up to its {call_text(episode, step)[3:]} gave other observations, rewards or ends. It "
        "depends on more than the seed of reset() and the actions, such as a global generator, a clock, a "
        "server or another processor, or it was changed. Draw its random numbers from self.np_random, or "
        "create the ProcessVectorEnv with exact=False, which continues with new episodes"
    )
