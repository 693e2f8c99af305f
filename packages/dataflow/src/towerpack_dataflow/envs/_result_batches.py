"""The results of several environments as one batch, in the format of gymnasium's vector environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
from gymnasium.vector import VectorEnv

from ..batch import BufferPool
from ._env_workers import EnvWorkers

__all__ = ["Batch", "ResultBatches", "info_rows"]

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
