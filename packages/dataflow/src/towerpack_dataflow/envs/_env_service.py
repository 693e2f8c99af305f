"""The worker of a vector environment: creates, steps and resets its environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, final

import numpy as np

from ..batch._buffer_pool import BatchAllocator
from ..runtime.transport._channel import Channel, PeerGoneError
from ..runtime.transport._remote_errors import pack_error
from ..runtime.worker._task_handler import WorkerService, get_worker_info
from ._space_arrays import IDLE
from ._worker_envs import WorkerEnvs, WorkerLink, make_worker_envs

__all__ = ["EnvService", "index_range"]


def index_range(number: int, workers: int, envs: int) -> range:
    """Returns the numbers of the environments of worker `number`."""
    return range(number * envs // workers, (number + 1) * envs // workers)


@final
class EnvService(WorkerService):
    """Runs the environments of each worker and answers messages from the parent.

    Args:
        make_envs: a function for each environment of all workers.
        mode: the name of the autoreset mode.
        in_turn: whether the parent waits for all environments of a step, with one answer for all.
    """

    def __init__(self, make_envs: Sequence[Callable[[], Any]], mode: str, in_turn: bool) -> None:
        """Stores the arguments; creates nothing."""
        self._make_envs, self._mode, self._in_turn = list(make_envs), mode, in_turn

    def contents(self) -> dict[str, Any]:
        """Returns the functions, under the numbers of their environments."""
        return {f"the function of environment {number}": make for number, make in enumerate(self._make_envs)}

    def prepare(self, memory: BatchAllocator) -> None:
        """Does nothing: environments are created in `serve`, which can name the failing one."""

    def serve(self, channel: Channel) -> None:
        """Creates the environments, then answers messages in order.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
        info = get_worker_info()
        assert info is not None
        numbers = index_range(info.number, info.num_workers, len(self._make_envs))
        made = make_worker_envs(channel, self._make_envs[numbers.start : numbers.stop], numbers, self._mode)
        _Answers(WorkerLink(channel.socket), made, self._in_turn).run()


@final
class _Answers:
    """The loop of a worker after the creation of its environments."""

    def __init__(self, link: WorkerLink, made: WorkerEnvs, in_turn: bool) -> None:
        self._link, self._in_turn = link, in_turn
        self._envs, self._episodes, self._memory = made
        self._called = made.episodes[0]

    def run(self) -> None:
        """Runs until the parent closes the connection, or an environment fails."""
        while True:
            for message in self._link.receive():
                try:
                    if message is None:
                        self._step()
                    else:
                        name, arguments = message
                        self._link.send(("done", getattr(self, f"_{name}")(*arguments)))
                except PeerGoneError:
                    raise
                except Exception as error:
                    self._link.send(("failed", self._called.place, pack_error(error)))
                finally:
                    self._memory.current[0] = IDLE

    def _step(self) -> None:
        memory, infos = self._memory, []
        for row in np.flatnonzero(memory.wanted).tolist():
            self._call(row)
            memory.wanted[row] = False
            info = self._episodes[row].advance()
            memory.ready[row] = True
            if info:
                infos.append((row, info))
            if not self._in_turn:
                self._report(infos)
                infos = []
        if self._in_turn:
            self._report(infos)

    def _report(self, infos: list[tuple[int, dict[str, Any]]]) -> None:
        if infos:
            self._link.send(("infos", infos))
        else:
            self._link.ring()

    def _call(self, row: int) -> None:
        self._called = self._episodes[row]
        self._memory.since[0] = monotonic()
        self._memory.current[0] = row

    def _reset(self, orders: Sequence[tuple[int, int, int, Any]]) -> list[tuple[int, dict[str, Any]]]:
        infos = []
        for row, seed, episode, options in orders:
            self._call(row)
            infos.append((row, self._episodes[row].begin(seed, episode, options)))
        return infos

    def _replay(self, orders: Sequence[tuple[int, Any]]) -> None:
        for row, what in orders:
            self._call(row)
            self._episodes[row].replay(*what)

    def _call_envs(self, name: str, rows: Sequence[tuple[Sequence[Any], dict[str, Any]]]) -> list[Any]:
        results = []
        for row, (arguments, keywords) in enumerate(rows):
            self._call(row)
            found = _attribute(self._envs[row], name)
            results.append(found(*arguments, **keywords) if callable(found) else found)
        return results

    def _set(self, name: str, values: Sequence[Any]) -> None:
        for env, value in zip(self._envs, values):
            if hasattr(env, "set_wrapper_attr"):
                env.set_wrapper_attr(name, value)
            else:
                setattr(env, name, value)

    def _close_envs(self) -> None:
        for row, env in enumerate(self._envs):
            self._call(row)
            if hasattr(env, "close"):
                env.close()


def _attribute(env: Any, name: str) -> Any:
    return env.get_wrapper_attr(name) if hasattr(env, "get_wrapper_attr") else getattr(env, name)
