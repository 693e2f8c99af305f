"""`ProcessVectorEnv`: environments in worker processes, stepped together, with their results as a batch."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .. import _argument_checks as arguments
from .._errors import ArgumentError, EnvCallError
from ..batch._buffer_pool import BufferPool
from ..runtime._suggest_workers import available_cpus
from ._env_service import EnvService, index_range
from ._env_workers import EnvWorkers
from ._resumable_episodes import ResumableEpisodes

__all__ = ["Batch", "ProcessVectorEnv", "ResultBatches", "info_rows"]


@final
class ProcessVectorEnv(VectorEnv[Any, Any, Any]):
    """Runs environments in worker processes, several in each, and steps them together.

    Observations, actions and rewards are in shared memory; a step sends each worker four bytes. The results
    of a step belong to the caller: later steps do not overwrite them.

    **Seeds.** The seed of an episode is `episode_seed(seed, environment, episode)`, passed at each reset. So
    an environment with transitions that depend only on its seed and actions can be resumed exactly:
    `state_dict()` contains the number of each environment's episode and the actions taken in it, and
    `load_state_dict()` repeats them. It compares a digest of the results with that of the state, and rejects
    the state if they differ.

    **Order.** `step` is `send` and `recv`. By default, `recv` returns all environments in order. With
    `batch_size` below the number of environments it returns the first available ones; `infos["env_id"]` has
    their numbers, and the next `send` is for them.

    **Failures.** Errors arrive with their type, the worker's traceback, the environment's number and the
    step; a worker that dies or a call that exceeds `timeout` is an error, too. All of them end the workers.

    Args:
        make_envs: a function for each environment, called in its worker.
        num_workers: number of processes; by default one per processor, but at most one per environment.
        batch_size: number of environments that `recv` waits for.
        autoreset_mode: time of the reset after the end of an episode: in the next step, in the same step (the
            last observation is in `infos["final_obs"]`), or by `reset(options={"reset_mask": mask})`.
        seed: seed of all episodes; random if `None`, and part of the state.
        timeout: time limit of one call of an environment in seconds, its construction included; `None` for no
            limit.
        start_method: "spawn" for new interpreters, "fork" for copies of this process.
        exact: whether a state continues the current episodes. False for environments that cannot repeat them:
            after `load_state_dict()`, `reset()` starts the next episodes.

    Attributes:
        exact: as passed.
        reason: the reason if `exact` is False; empty if it is True.

    Raises:
        ArgumentError: an argument has an invalid value.
        SendError: a function cannot be pickled; the message names the failing part.
        EnvError: the environments differ in their spaces, or their spaces have no fixed shapes.

    Example:
        >>> import gymnasium
        >>> envs = ProcessVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4, num_workers=2, seed=7)
        >>> observations, infos = envs.reset()
        >>> observations, rewards, terminated, truncated, infos = envs.step([0, 1, 0, 1])
        >>> observations.shape, rewards
        ((4, 4), array([1., 1., 1., 1.]))
        >>> envs.close()
    """

    def __init__(
        self,
        make_envs: Sequence[Callable[[], Any]],
        *,
        num_workers: int | None = None,
        batch_size: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        seed: int | None = None,
        timeout: float | None = 300.0,
        start_method: str = "spawn",
        exact: bool = True,
    ) -> None:
        """Starts the workers and creates the environments."""
        self.closed = True  # older releases of gymnasium close environments in __del__, even half-made ones
        count = len(make_envs) if isinstance(make_envs, Sequence) else 0
        if not count or not all(map(callable, make_envs)):
            raise ArgumentError(
                f"make_envs is a list of functions that return an environment each; received {make_envs!r}"
            )
        most = f", at most the {count} environments"
        self.num_envs = count
        workers = min(int(available_cpus()), count) if num_workers is None else num_workers
        workers = arguments.count("num_workers", workers, instead=most, most=count)
        self.batch_size = arguments.count(
            "batch_size", count if batch_size is None else batch_size, instead=most, most=count
        )
        self.exact = arguments.flag("exact", exact)
        self.reason = "" if exact else "the ProcessVectorEnv was created with exact=False"
        mode = _checked_mode(autoreset_mode)
        limit = None if timeout is None else arguments.seconds("timeout", timeout)
        method = arguments.one_of("start_method", start_method, ("spawn", "fork"))
        base = np.random.SeedSequence().generate_state(1)[0] if seed is None else seed
        base = arguments.count("seed", int(base) if seed is None else base, least=0)
        self._in_turn = self.batch_size == count
        index_ranges = [index_range(number, workers, count) for number in range(workers)]
        service = EnvService(make_envs, mode.name, self._in_turn)
        self._workers = EnvWorkers(service, index_ranges, method, limit)
        self._end = weakref.finalize(self, EnvWorkers.close, self._workers)
        properties = self._workers.properties
        self.metadata = {**properties.metadata, "autoreset_mode": mode}
        self.render_mode = properties.render_mode
        self.autoreset_mode = mode
        self.single_observation_space, self.single_action_space = (
            properties.observation.space,
            properties.action.space,
        )
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        places = [(number, row) for number, numbers in enumerate(index_ranges) for row in range(len(numbers))]
        self._results = ResultBatches(self._workers, places, self._in_turn)
        self._episodes = ResumableEpisodes(self._workers, places, base, mode, self.exact)
        self._arrived: deque[int] = deque()
        self._next = np.arange(count)
        self.closed = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts the next episode of all environments, or of those in `options["reset_mask"]`.

        Args:
            seed: restarts with episode 0 of this seed; one seed per environment is possible.
            options: for the environments; a `reset_mask` is removed first.

        Returns:
            The observations of all environments, and the infos of the reset ones.

        Raises:
            EnvCallError: steps are in progress.
            Exception: any error of an environment.
        """
        self._check_quiet("reset()")
        given = dict(options or {})
        mask = self._checked_mask(given.pop("reset_mask", None))
        infos = self._episodes.reset(np.flatnonzero(mask).tolist(), self._checked_seeds(seed), given or None)
        self._next = np.arange(self.num_envs)
        return self.observations, info_rows(sorted(infos.items()), self.num_envs)

    def step(self, actions: Any) -> Batch:
        """Sends actions and returns the results; see `recv`.

        Raises:
            ArgumentError: the actions do not fit the action space.
            EnvCallError: `reset()` is missing, or a step is in progress.
            Exception: any error of an environment.
        """
        self.send(actions)
        return self.recv()

    def send(self, actions: Any) -> None:
        """Sends actions to the environments of the last `recv`, in that order.

        Args:
            actions: a batch of the action space; after `reset()`, for all environments.

        Raises:
            ArgumentError: the actions do not fit the action space.
            EnvCallError: `reset()` is missing, or the results of the last actions were not received.
        """
        self._workers.check_running()
        if not len(self._next):
            raise EnvCallError(
                "send() was called twice; call recv() for the environments that can be stepped next"
            )
        envs = self._next
        space = self._workers.properties.action
        try:
            arrays = space.fit(actions, lambda part: (len(envs), *part.shape))
        except ValueError as error:
            raise ArgumentError(
                f"the actions of {len(envs)} environments do not fit the action space {space.space}: {error}"
            ) from None
        self._episodes.check_can_step(envs)
        self._next = envs[:0]
        self._episodes.send(envs, arrays)

    def recv(self) -> Batch:
        """Waits for results: of all environments in order, or of the first `batch_size` available ones.

        Returns:
            Observations, rewards (float64), terminated, truncated, and infos as in gymnasium: an array for
            each key, and a mask under the key with an underscore. Rows are in the order of `infos["env_id"]`,
            which is present if `batch_size` is below the number of environments.

        Raises:
            EnvCallError: nothing was sent.
            Exception: any error of an environment.
        """
        self._workers.check_running()
        if self._episodes.pending < self.batch_size:
            raise EnvCallError(
                f"recv() waits for {self.batch_size} environments, but actions were sent to "
                f"{self._episodes.pending}; call send() first"
            )
        while len(self._arrived) < self.batch_size:
            self._wait()
        envs = np.array([self._arrived.popleft() for _ in range(self.batch_size)])
        if self._in_turn:
            envs.sort()
        self._next = envs
        self._episodes.receive(envs)
        return self._results.batch(envs)

    @property
    def observations(self) -> Any:
        """The newest observations of all environments, to continue with after `load_state_dict`."""
        return self._results.observations(np.arange(self.num_envs))

    def state_dict(self) -> dict[str, Any]:
        """Returns seeds, episodes and the actions of the current episodes, as JSON values.

        Steps sent but not received are part of it: after `load_state_dict`, `recv` returns them.
        """
        self._workers.check_running()
        return {**self._episodes.state_dict(), "next": self._next.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state` was taken: repeats the actions of the episodes of that time.

        Raises:
            StateError: the state belongs to another vector environment; or the environments do not repeat
                their results, and must be reset.
            EnvCallError: steps are in progress.
            Exception: any error of an environment.
        """
        self._check_quiet("load_state_dict()")
        self._episodes.load_state_dict(state)
        self._next = np.array(state["next"], np.int64)

    def render(self) -> tuple[Any, ...] | None:
        """Returns the results of `render()` of all environments."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each environment, or reads an attribute; returns the results in order.

        Its changes to an environment are not part of `state_dict()`.
        """
        self._check_quiet(f"call({name!r})")
        rows = [(name, [(args, kwargs)] * len(numbers)) for numbers in self._workers.index_ranges]
        return tuple(found for part in self._workers.request("call_envs", rows) for found in part)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each environment, in order."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment: to its value in a list or tuple, or all to the same value.

        Raises:
            ArgumentError: the length of the list differs from the number of environments.
        """
        self._check_quiet(f"set_attr({name!r})")
        each = list(values) if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ArgumentError(
                f"values has one value for each of {self.num_envs} environments; received {each!r}"
            )
        self._workers.request(
            "set", [(name, each[part.start : part.stop]) for part in self._workers.index_ranges]
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the environments, and ends the workers; called by `close()`."""
        try:
            if self._workers.running and not self._episodes.pending:
                self._workers.request("close_envs", [()] * len(self._workers.index_ranges))
        finally:
            self._workers.close()

    def _wait(self) -> None:
        for number, message in self._workers.news():
            first, memory = self._workers.index_ranges[number][0], self._workers.memories[number]
            rows = np.flatnonzero(memory.ready)
            memory.ready[rows] = False
            self._arrived.extend((first + rows).tolist())
            if message is not None:
                self._results.add_infos((first + row, info) for row, info in message[1])

    def _check_quiet(self, what: str) -> None:
        self._workers.check_running()
        if self._episodes.pending:
            raise EnvCallError(
                f"{what} was called while {self._episodes.pending} environments have a step in progress; "
                "call recv() first"
            )

    def _checked_mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,) or not array.any():
            raise ArgumentError(
                f'options["reset_mask"] has a boolean for each of {self.num_envs} environments, one of them '
                f"True; received {mask!r}"
            )
        return array

    def _checked_seeds(self, seed: Any) -> list[int | None]:
        given = list(seed) if isinstance(seed, (Sequence, np.ndarray)) else [seed] * self.num_envs
        if len(given) != self.num_envs:
            raise ArgumentError(
                f"seed has one seed for each of {self.num_envs} environments; received {seed!r}"
            )
        return [None if one is None else arguments.count("seed", one, least=0) for one in given]


def _checked_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(repr(known.value) for known in AutoresetMode)
        raise ArgumentError(
            f"autoreset_mode is one of {allowed}, or an AutoresetMode; received {mode!r}"
        ) from None


Batch = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
"""Observations, rewards, terminated, truncated and infos."""


@final
class ResultBatches:
    """Copies results from the workers' memory into memory without other references.

    Args:
        workers: workers of the environments.
        places: the worker and the row of each environment.
        in_turn: whether a batch is always all environments in order.
    """

    def __init__(self, workers: EnvWorkers, places: Sequence[tuple[int, int]], in_turn: bool) -> None:
        """Starts without infos."""
        self._workers, self._places, self._in_turn = workers, places, in_turn
        self._buffers = BufferPool()
        self._infos: dict[int, dict[str, Any]] = {}

    def add_infos(self, infos: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Stores infos, with the numbers of their environments, for their batch."""
        self._infos.update(infos)

    def batch(self, envs: np.ndarray) -> Batch:
        """Returns the newest results of these environments."""
        memories = self._workers.memories
        columns = [(memory.rewards, memory.terminated, memory.truncated) for memory in memories]
        rewards, terminated, truncated = (np.concatenate(column) for column in zip(*columns))
        infos: dict[str, Any] = {}
        if self._infos:
            at_hand = [(at, env) for at, env in enumerate(envs.tolist()) if env in self._infos]
            infos = info_rows([(at, self._infos.pop(env)) for at, env in at_hand], len(envs))
        observations = self.observations(envs)
        if self._in_turn:
            return observations, rewards, terminated, truncated, infos
        infos["env_id"] = envs
        return observations, rewards[envs], terminated[envs], truncated[envs], infos

    def observations(self, envs: np.ndarray) -> Any:
        """Returns the newest observations of these environments."""
        space = self._workers.properties.observation
        arrays = self._buffers.allocate([((len(envs), *part.shape), part.dtype) for part in space.parts])
        for index, array in enumerate(arrays):
            rows = [memory.observations[index] for memory in self._workers.memories]
            if len(envs) == len(self._places):
                every = np.concatenate(rows, out=array)
                if not self._in_turn:
                    array[:] = every[envs]
                continue
            for at, env in enumerate(envs.tolist()):
                number, row = self._places[env]
                array[at] = rows[number][row]
        return space.together(arrays)


def info_rows(infos: Iterable[tuple[int, dict[str, Any]]], count: int) -> dict[str, Any]:
    """Joins infos of single environments: an array for each key, and a mask of the rows that have it.

    The arrays follow gymnasium's rule, so that infos equal those of its `SyncVectorEnv`: numbers and arrays
    get arrays of their dtype, dicts are joined recursively, `final_obs` and all other values are objects.

    Args:
        infos: rows, and the info of each.
        count: rows of a batch.

    Example:
        >>> joined = info_rows([(1, {"lives": 3})], 2)
        >>> joined["lives"], joined["_lives"]
        (array([0, 3]), array([False,  True]))
    """
    joined: dict[str, Any] = {}
    rule: VectorEnv[Any, Any, Any] = VectorEnv()
    rule.num_envs = count
    for row, info in infos:
        # A protected method for subclasses of VectorEnv, which must follow its interface.
        joined = rule._add_info(joined, info, row)
    return joined
