"""`SimulatorProcess`: environments in a separate process that requests actions from a master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NoReturn, final

import numpy as np
import zmq

from ..._errors import ArgumentError
from ...batch._buffer_pool import BatchAllocator
from ...remote import _link
from ...runtime.transport._channel import Channel, PeerGoneError
from ...runtime.transport._remote_errors import pack_error
from ...runtime.worker._task_handler import WorkerService, get_worker_info
from .._space_arrays import IDLE
from .._worker_envs import WorkerEnvs, WorkerLink, make_worker_envs
from ._simulator_messages import packed_states, unpacked_actions

__all__ = ["SimulatorProcess", "SimulatorService"]

_RECONNECT = 10  # milliseconds; the master opens its socket after the creation of all environments


@final
class SimulatorProcess:
    """Describes a process that steps one or several environments when a master sends actions for them.

    All its environments share one message: their observations to the master, their actions back. So several
    environments in a process share the costs of a message, and step at the speed of the slowest.

    Args:
        make_envs: a function that makes a gymnasium environment, called in the process; or a list of such.

    Attributes:
        make_envs: the functions, as a list.

    Raises:
        ArgumentError: `make_envs` has another type.

    Example:
        >>> import gymnasium
        >>> make = lambda: gymnasium.make("CartPole-v1")
        >>> len(SimulatorProcess([make, make]).make_envs)
        2
    """

    def __init__(self, make_envs: Callable[[], Any] | Sequence[Callable[[], Any]]) -> None:
        """Stores the functions; the master starts the process."""
        given = [make_envs] if callable(make_envs) else make_envs
        if not isinstance(given, Sequence) or not given or not all(map(callable, given)):
            raise ArgumentError(
                "make_envs is a function that returns an environment, or a list of them; received "
                f"{make_envs!r}"
            )
        self.make_envs = list(given)


@final
class SimulatorService(WorkerService):
    """Runs the environments of each simulator in its worker.

    Args:
        make_envs: the functions of each simulator.
        index_ranges: the numbers of the environments of each.
        address: address of the master.
        identities: the identity of each for the master.
        seed: seed of all episodes.
    """

    def __init__(
        self,
        make_envs: Sequence[Sequence[Callable[[], Any]]],
        index_ranges: Sequence[range],
        address: str,
        identities: Sequence[bytes],
        seed: int,
    ) -> None:
        """Stores the arguments; creates nothing."""
        self._make_envs, self._index_ranges = list(make_envs), list(index_ranges)
        self._address, self._identities, self._seed = address, list(identities), seed

    def contents(self) -> dict[str, Any]:
        """Returns the functions, under the numbers of their environments."""
        functions = [make for each in self._make_envs for make in each]
        return {f"the function of environment {number}": make for number, make in enumerate(functions)}

    def prepare(self, memory: BatchAllocator) -> None:
        """Does nothing: environments are created in `serve`, which can name the failing one."""

    def serve(self, channel: Channel) -> None:
        """Creates the environments, then steps them with the master's actions.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
        info = get_worker_info()
        assert info is not None
        number = info.number
        made = make_worker_envs(channel, self._make_envs[number], self._index_ranges[number], "NEXT_STEP")
        context = _link.new_context()
        try:
            link = context.socket(zmq.DEALER)
            link.setsockopt(zmq.ROUTING_ID, self._identities[number])
            link.setsockopt(zmq.RECONNECT_IVL, _RECONNECT)
            link.connect(self._address)
            _SimulatorLoop(WorkerLink(channel.socket), channel.socket.fileno(), link, made).run(self._seed)
        finally:
            context.destroy(linger=0)


@final
class _SimulatorLoop:
    """States to the master, actions back, until the parent closes its connection."""

    def __init__(
        self, parent: WorkerLink, descriptor: int, master: zmq.Socket[bytes], made: WorkerEnvs
    ) -> None:
        self._parent, self._descriptor, self._master = parent, descriptor, master
        self._envs, self._episodes, self._memory = made
        self._called = made.episodes[0]
        self._poller = zmq.Poller()
        self._poller.register(descriptor, zmq.POLLIN)
        self._poller.register(master, zmq.POLLIN)

    def run(self, seed: int) -> None:
        """Starts the first episodes, then steps."""
        try:
            self._of_all(lambda row: self._episodes[row].begin(seed, 0, None))
            while True:
                self._master.send_multipart(packed_states(self._memory))
                for target, part in zip(
                    self._memory.actions, unpacked_actions(self._received(), self._memory)
                ):
                    np.copyto(target, part)
                self._of_all(lambda row: self._episodes[row].advance())
        except PeerGoneError:
            raise
        except Exception as error:
            self._fail(error)

    def _of_all(self, call: Callable[[int], Any]) -> None:
        memory = self._memory
        for row, episodes in enumerate(self._episodes):
            self._called = episodes
            memory.since[0] = monotonic()
            memory.current[0] = row
            call(row)
            memory.wanted[row] = False
        memory.current[0] = IDLE

    def _received(self) -> list[bytes]:
        while True:
            ready = dict(self._poller.poll())
            if self._descriptor in ready:
                self._parent.receive()
            if self._master in ready:
                frames: list[bytes] = self._master.recv_multipart()
                return frames

    def _fail(self, error: Exception) -> NoReturn:
        self._memory.current[0] = IDLE
        self._memory.wanted[:] = False
        self._parent.send(("failed", self._called.place, pack_error(error)))
        while True:
            self._parent.receive()  # until the parent has closed the connection
