"""The current episode of each environment, and its actions, which a resumed run repeats."""

from __future__ import annotations

import base64
import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium.vector import AutoresetMode

from .._errors import EnvCallError, StateError
from ._env_workers import EnvWorkers
from ._space_arrays import Part, call_text
from ._worker_envs import check_identity

__all__ = ["ActionLog", "ResumableEpisodes", "packed_actions", "unpacked_actions"]

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
            **here,  # for what a state of an earlier release lacks
            "number of environments": len(state["seeds"]),
            "autoreset_mode": state["autoreset_mode"],
            "action space": state["action_space"],
            "observation space": state.get("observation_space", here["observation space"]),
            **{f"environment {number}": each for number, each in enumerate(state.get("environments", ()))},
        }
        check_identity("ProcessVectorEnv", there, here)
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


_FEWEST = 64


@final
class ActionLog:
    """Records the actions of each environment's current episode.

    Args:
        parts: the arrays of the action space.
        num_envs: number of environments.
    """

    def __init__(self, parts: Sequence[Part], num_envs: int) -> None:
        """Starts without actions."""
        self._rows = [np.empty((_FEWEST, num_envs, *part.shape), part.dtype) for part in parts]
        self._sent = np.zeros((_FEWEST, num_envs), np.bool_)
        self._begin = np.zeros(num_envs, np.int64)
        self._length = 0

    def append(self, envs: Any, arrays: Sequence[np.ndarray]) -> None:
        """Records one action for each of some environments.

        Args:
            envs: their numbers, or a slice.
            arrays: a batch of actions, as arrays.
        """
        if self._length == len(self._sent):
            self._make_room()
        at = self._length
        for rows, array in zip(self._rows, arrays):
            rows[at, envs] = array
        self._sent[at] = False
        self._sent[at, envs] = True
        self._length += 1

    def restart(self, envs: Any) -> None:
        """Drops the actions of these environments when new episodes begin."""
        self._begin[envs] = self._length

    def fill(self, actions: Sequence[Sequence[np.ndarray]]) -> None:
        """Replaces the recorded actions of all environments."""
        lengths = [len(arrays[0]) for arrays in actions]
        size = max(_FEWEST, *lengths)
        self._rows = [np.empty((size, *rows.shape[1:]), rows.dtype) for rows in self._rows]
        self._sent = np.zeros((size, len(actions)), np.bool_)
        for env, (arrays, length) in enumerate(zip(actions, lengths)):
            for rows, array in zip(self._rows, arrays):
                rows[:length, env] = array
            self._sent[:length, env] = True
        self._begin[:] = 0
        self._length = max(lengths)

    def actions(self, env: int) -> list[np.ndarray]:
        """Returns the actions of an environment's current episode, as arrays."""
        chosen = slice(self._begin[env], self._length)
        sent = self._sent[chosen, env]
        return [rows[chosen, env][sent] for rows in self._rows]

    def _make_room(self) -> None:
        """Drops obsolete actions; doubles the memory if most are still needed."""
        first = int(self._begin.min())
        kept = self._length - first
        size = len(self._sent) * (2 if 2 * kept > len(self._sent) else 1)
        self._rows = [_moved(rows, first, self._length, size) for rows in self._rows]
        self._sent = _moved(self._sent, first, self._length, size)
        self._begin -= first
        self._length = kept


def _moved(rows: np.ndarray, first: int, end: int, size: int) -> np.ndarray:
    moved = np.empty((size, *rows.shape[1:]), rows.dtype)
    moved[: end - first] = rows[first:end]
    return moved


def packed_actions(arrays: Sequence[np.ndarray]) -> list[str]:
    """Returns actions as text, exactly.

    Example:
        >>> part = Part("", (), np.dtype(np.int64))
        >>> unpacked_actions(packed_actions([np.arange(3)]), [part])
        [array([0, 1, 2])]
    """
    return [base64.b64encode(zlib.compress(array.tobytes())).decode() for array in arrays]


def unpacked_actions(texts: Sequence[str], parts: Sequence[Part]) -> list[np.ndarray]:
    """Returns the actions encoded by `packed_actions`.

    Raises:
        StateError: the text is damaged, or of another action space.
    """
    try:
        raws = [zlib.decompress(base64.b64decode(text)) for text in texts]
        return [
            np.frombuffer(raw, part.dtype).reshape(-1, *part.shape)
            for raw, part in zip(raws, parts, strict=True)
        ]
    except (ValueError, TypeError, zlib.error) as error:
        raise StateError(
            f"the actions of this state belong to another action space, or are damaged: {error}"
        ) from error
