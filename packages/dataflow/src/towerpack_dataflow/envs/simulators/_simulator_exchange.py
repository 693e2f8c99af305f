"""The thread of a master: receives states, calls hooks, sends actions, detects ended simulators."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Protocol, final

import numpy as np
import zmq

from ..._errors import MessageError
from ...remote import _link
from .._env_workers import EnvWorkers
from ._simulator_messages import SimulatorEpisode, SimulatorStates, packed_actions, unpacked_states

__all__ = ["MasterSocket", "SimulatorExchange", "SimulatorHooks"]

_log = logging.getLogger("towerpack_dataflow")

_LONGEST_WAIT = 0.05  # seconds between checks for late simulators
_HEADERS = 2**16  # bytes of a message besides the arrays


class SimulatorHooks(Protocol):
    """The hooks of a master, always called from its thread. An error in a hook ends the simulators.

    Example:
        >>> class Print:
        ...     def on_states(self, states):
        ...         print("reward", states.reward)
        ...
        ...     def on_episode_over(self, episode):
        ...         print("return", episode.total)
        ...
        ...     def on_error(self, error):
        ...         print("ended by", error)
        >>> hooks: SimulatorHooks = Print()  # for SimulatorMaster.start
    """

    def on_states(self, states: SimulatorStates) -> None:
        """Receives new states. The simulator waits for actions, sent now or later by any thread."""

    def on_episode_over(self, episode: SimulatorEpisode) -> None:
        """Receives the summary of an episode, before the states that end it."""

    def on_error(self, error: BaseException) -> None:
        """Receives the error of a simulator or hook that ended the simulators. It is the last call."""


@final
class MasterSocket:
    """The socket of a master. It has no name in the file system, and accepts only its own simulators.

    Args:
        simulators: number of simulators.

        Attributes:
            address: address for the simulators.
            identities: one secret identity per simulator.
            router: the socket.
    """

    def __init__(self, simulators: int) -> None:
        """Creates the socket."""
        self.address = f"ipc://@towerpack-{secrets.token_hex(16)}"
        # An identity must not begin with a zero.
        self.identities = [b"s" + secrets.token_bytes(16) for _ in range(simulators)]
        self._context = _link.new_context()
        self.router = self._context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A simulator has one message in transit; more messages from a stranger would fill the memory.
        self.router.setsockopt(zmq.RCVHWM, 2)

    def open(self, largest: int) -> None:
        """Accepts connections of simulators.

        Args:
            largest: bytes of their states; senders of much more are disconnected.
        """
        self.largest = largest + _HEADERS
        self.router.setsockopt(zmq.MAXMSGSIZE, self.largest)
        self.router.bind(self.address)

    def close(self) -> None:
        """Closes the socket. A second call does nothing."""
        self._context.destroy(linger=0)


@final
class SimulatorExchange:
    """Exchanges states and actions; `run` is the main function of a thread.

    Args:
        workers: the simulators.
        link: the socket connected with them.
        hooks: the hooks to call.
    """

    def __init__(self, workers: EnvWorkers, link: MasterSocket, hooks: SimulatorHooks) -> None:
        """Stores the arguments; sends nothing."""
        self._workers, self._link, self._hooks = workers, link, hooks
        self._numbers = {identity: number for number, identity in enumerate(link.identities)}
        self._actions: deque[tuple[int, Sequence[np.ndarray]]] = deque()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._stopping = False
        counts = [len(numbers) for numbers in workers.index_ranges]
        self._ended = [np.ones(count, np.bool_) for count in counts]
        self._totals = [np.zeros(count) for count in counts]
        self._lengths = [np.zeros(count, np.int64) for count in counts]
        self._waiting: set[int] = set()
        self._refused = False

    @property
    def waiting(self) -> frozenset[int]:
        """The numbers of the simulators that wait for actions."""
        return frozenset(self._waiting)

    def send(self, simulator: int, actions: Sequence[np.ndarray]) -> None:
        """Sends actions; from any thread."""
        self._waiting.discard(simulator)
        self._actions.append((simulator, actions))
        self._wake()

    def stop(self) -> None:
        """Makes `run` return."""
        self._stopping = True
        self._wake()

    def run(self) -> None:
        """Runs until `stop`, or until an error."""
        try:
            self._exchange()
        except BaseException as error:
            self._workers.close(f"they were ended by {type(error).__name__}: {error}".partition("\n")[0])
            if not self._stopping:
                self._hooks.on_error(error)
        finally:  # a socket of ZeroMQ belongs to one thread
            self._link.close()
            self._waker.close()
            self._woken.close()

    def _exchange(self) -> None:
        poller, woken, router = zmq.Poller(), self._woken.fileno(), self._link.router
        for descriptor in (router, woken, *self._workers.descriptors):
            poller.register(descriptor, zmq.POLLIN)
        look, wait = monotonic() + _LONGEST_WAIT, _LONGEST_WAIT
        while not self._stopping:
            ready = dict(poller.poll(int(wait * 1000) + 1))
            self._send_all(ready.pop(woken, None) is not None)
            if ready.pop(router, None) is not None:
                self._receive_all()
            if ready:
                self._workers.news()
            elif monotonic() > look:  # also while other simulators continue
                wait = min(self._workers.time_left(), _LONGEST_WAIT)
                look = monotonic() + wait

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # it is awake already, or has ended
            self._waker.send(b"\0")

    def _send_all(self, woken: bool) -> None:
        if woken:
            self._woken.recv(2**12)
        while self._actions:
            simulator, actions = self._actions.popleft()
            self._workers.expect_steps(simulator)
            # A simulator that has just ended is unreachable; `news` will report it.
            with contextlib.suppress(zmq.ZMQError):
                self._link.router.send_multipart([self._link.identities[simulator], *packed_actions(actions)])

    def _receive_all(self) -> None:
        for _ in self._numbers:  # at most one message each; strangers must not keep this thread busy
            try:
                identity, *frames = self._link.router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            number = self._numbers.get(identity)
            if number is None:
                self._refuse(frames)
            else:
                self._take(number, frames)

    def _refuse(self, frames: Sequence[bytes]) -> None:
        if not self._refused:
            self._refused = True
            _log.warning(
                "Rejected a message of %d bytes from an unknown client of the simulators' master. "
                "Later messages of unknown clients are rejected silently.",
                sum(map(len, frames)),
            )

    def _take(self, number: int, frames: Sequence[bytes]) -> None:
        ended, space = self._ended[number], self._workers.properties.observation
        try:
            received = unpacked_states(frames, len(ended), space, self._link.largest)
            if number in self._waiting:
                raise MessageError("it has sent states twice without receiving actions")
        except MessageError as error:
            raise MessageError(f"simulator {number}: {error}") from None
        parts, reward, terminated, truncated = received
        valid = ~ended
        self._ended[number] = terminated | truncated
        self._waiting.add(number)
        self._count(number, reward, valid)
        numbers, observation = self._workers.index_ranges[number], space.together(parts)
        self._hooks.on_states(
            SimulatorStates(number, numbers, observation, reward, terminated, truncated, valid)
        )

    def _count(self, number: int, reward: np.ndarray, valid: np.ndarray) -> None:
        totals, lengths, ended = self._totals[number], self._lengths[number], self._ended[number]
        totals += reward * valid
        lengths += valid
        for row in np.flatnonzero(ended).tolist():
            environment = self._workers.index_ranges[number][row]
            episode = SimulatorEpisode(number, environment, float(totals[row]), int(lengths[row]))
            totals[row] = lengths[row] = 0
            self._hooks.on_episode_over(episode)
