"""The workers of a vector environment, on the parent's side."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import monotonic
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from .._errors import EnvCallError, EnvError, EnvTimeoutError, WorkerDiedError
from ..runtime.pool._worker_group import WorkerGroup
from ..runtime.pool._worker_handle import WorkerHandle
from ..runtime.transport._channel import PeerGoneError
from ..runtime.transport._remote_errors import Failure, unpack_error
from ..runtime.worker._task_handler import WorkerService
from ..runtime.worker._worker_options import WorkerOptions
from ..runtime.worker._worker_process import interrupts_blocked
from ._space_arrays import IDLE, SpaceArrays, StepMemory
from ._worker_envs import WorkerLink

__all__ = ["EnvProperties", "EnvWorkers"]

_USUAL_WAIT = 0.05  # seconds
_LONGEST_WAIT = 1e5  # seconds; the system accepts no infinity


@final
class EnvProperties(NamedTuple):
    """Properties of the environments; they must be the same for all.

    Attributes:
        metadata: metadata of the first environment.
        render_mode: render mode of the first environment.
        observation, action: their spaces.
        identities: the identity of each environment, from `env_identity`.
    """

    metadata: dict[str, Any]
    render_mode: str | None
    observation: SpaceArrays
    action: SpaceArrays
    identities: list[str]


@final
class EnvWorkers:
    """Starts the workers, exchanges messages with them, and ends them.

    A failure ends all of them: an environment that has lost a step cannot be trusted with the next one.

    Args:
        service: creates and steps the environments in the workers.
        index_ranges: the numbers of the environments of each worker.
        start_method: "spawn" or "fork".
        timeout: time limit of one call of an environment, in seconds.
        names: the names of the owner and of a worker in messages.

    Attributes:
        properties: properties of the environments.
        memories: the shared memory of each worker.
        index_ranges: as given.
    """

    def __init__(
        self,
        service: WorkerService,
        index_ranges: Sequence[range],
        start_method: str,
        timeout: float | None,
        names: tuple[str, str] = ("vector environment", "worker"),
    ) -> None:
        """Starts the workers, and waits until all environments are created."""
        self._timeout = inf if timeout is None else timeout
        self._owner, self._member = names
        self.index_ranges = list(index_ranges)
        self.memories: list[StepMemory] = []
        self._links: list[WorkerLink] = []
        self._poll = select.poll()
        self._by_descriptor: dict[int, int] = {}
        self._group = WorkerGroup(
            len(index_ranges), WorkerOptions(start_method=start_method, stall_warning=None)
        )
        self._making = [f"in environment {numbers[0]}, while it was made" for numbers in self.index_ranges]
        self._asked: set[int] = set()  # the workers with an outstanding answer
        self._last_message = 0.0  # its time of arrival, while the workers start
        self._why_closed = "close() was called"
        with self._closing():
            self._group.start(service)
            for worker in self._group.workers:
                for descriptor in worker.descriptors:
                    self._poll.register(descriptor, select.POLLIN)
                    self._by_descriptor[descriptor] = worker.number
            self.properties = self._properties(list(self._handshake("made")))
            self._share_memory()

    @property
    def running(self) -> bool:
        """Whether workers exist and were started by this process."""
        return bool(self._group.workers) and self._group.is_ours

    def check_running(self) -> None:
        """Checks that the workers are running.

        Raises:
            EnvCallError: they have ended.
        """
        if not self.running:
            raise EnvCallError(
                f"this {self._owner} has no {self._member}s any more: {self._why_closed}; create a new one"
            )

    def ring(self, number: int) -> None:
        """Notifies a worker of a change in `wanted`."""
        memory = self.memories[number]
        if memory.current[0] == IDLE:
            memory.since[0] = monotonic()
        try:
            self._links[number].ring()
        except PeerGoneError:
            with self._closing():
                self._raise_death(number)

    def news(self) -> list[tuple[int, Any]]:
        """Waits for messages; returns each with the number of its worker.

        Raises:
            WorkerDiedError: a worker has ended.
            EnvTimeoutError: a call of an environment takes too long.
        """
        with self._closing():
            found = []
            for number in self._ready_workers(self._deadline):
                try:
                    found += [(number, message) for message in self._links[number].receive()]
                except PeerGoneError:
                    self._raise_death(number)
            for number, message in found:
                if message is not None and message[0] == "failed":
                    self._raise_failure(number, *message[1:])
            return found

    def request(self, name: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Sends each worker a request, unless its arguments are `None`; returns all answers.

        Raises:
            Exception: any error of an environment.
            WorkerDiedError: a worker has ended.
            EnvTimeoutError: a call of an environment takes too long.
        """
        answers: list[Any] = [None] * len(arguments)
        self._asked = {number for number, given in enumerate(arguments) if given is not None}
        with self._closing():
            for number in self._asked:
                self.memories[number].since[0] = monotonic()
                try:
                    self._links[number].send((name, arguments[number]))
                except PeerGoneError:
                    self._raise_death(number)
            while self._asked:
                for number, message in self.news():
                    if message is not None and message[0] == "done":
                        answers[number] = message[1]
                        self._asked.discard(number)
        return answers

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that become readable when `news()` has messages."""
        return list(self._by_descriptor)

    def expect_steps(self, number: int) -> None:
        """Records that all environments of a worker were asked to step, by other means than `ring`."""
        memory = self.memories[number]
        memory.since[0] = monotonic()
        memory.wanted[:] = True

    def time_left(self) -> float:
        """Returns the seconds until a call of an environment may exceed its timeout.

        Raises:
            EnvTimeoutError: a call of an environment exceeds its timeout.
        """
        with self._closing():
            return self._time_left(self._deadline)

    def close(self, why: str = "close() was called") -> None:
        """Ends all workers."""
        if self._group.is_ours:  # a fork of this process does not own them
            with interrupts_blocked():
                if self._group.workers:
                    self._why_closed = why
                self._group.close()

    @contextlib.contextmanager
    def _closing(self) -> Iterator[None]:
        """Ends all workers if the block fails; also at Ctrl-C, which may come at any point."""
        try:
            yield
        except BaseException as error:
            summary = str(error).partition("\n")[0]
            self.close(f"they were ended by {type(error).__name__}" + (f": {summary}" if summary else ""))
            raise

    def _ready_workers(self, deadline: Callable[[int], float]) -> list[int]:
        """Waits for workers that have sent a message or have ended."""
        wait = _USUAL_WAIT  # a step rarely takes longer, and then the clock is not needed
        while not (events := self._poll.poll(wait * 1000)):
            wait = self._time_left(deadline)
        sockets = {worker.channel.socket.fileno() for worker in self._group.workers}
        found = {self._by_descriptor[descriptor] for descriptor, _ in events if descriptor in sockets}
        for descriptor, _ in events:
            if (
                self._by_descriptor[descriptor] not in found
            ):  # ended, with its socket kept open by a child process
                self._raise_death(self._by_descriptor[descriptor])
        return sorted(found)

    def _time_left(self, deadline: Callable[[int], float]) -> float:
        due = [deadline(number) for number in range(len(self.index_ranges))]
        for number, when in enumerate(due):
            if when < monotonic():
                self._raise_timeout(number)
        return min(max(min(due) - monotonic(), 0.0) + 0.001, _LONGEST_WAIT)

    def _deadline(self, number: int) -> float:
        memory = self.memories[number]
        busy = number in self._asked or memory.current[0] != IDLE or memory.wanted.any()
        return float(memory.since[0]) + self._timeout if busy else inf

    def _handshake(self, last: str) -> Iterator[tuple[Any, Any]]:
        """Reads messages of the workers until each has sent the message `last`; yields these in order."""
        found: dict[int, tuple[Any, Any]] = {}
        self._last_message = monotonic()
        while len(found) < len(self.index_ranges):
            for number in self._ready_workers(
                lambda number: inf if number in found else self._last_message + self._timeout
            ):
                self._last_message = monotonic()
                worker = self._group.workers[number]
                try:
                    while (
                        number not in found and (received := worker.channel.receive(wait=False)) is not None
                    ):
                        head, message = received
                        if isinstance(head, Failure):
                            self._raise_failure(number, f"while the {self._member} started", head)
                        if head is None:
                            continue
                        if head[0] == "making":
                            self._making[number] = f"in environment {head[1]}, while it was made"
                        elif head[0] == "failed":
                            self._raise_failure(number, *head[1:])
                        elif head[0] == last:
                            found[number] = (head, message)
                except PeerGoneError:
                    self._raise_death(number)
        for number in range(len(self.index_ranges)):
            yield found[number]

    def _properties(self, made: Sequence[tuple[Any, Any]]) -> EnvProperties:
        (_, metadata, render_mode, _), _ = made[0]
        spaces = [pair for _, message in made for pair in message.open()]
        for number, pair in enumerate(spaces):
            for name, first, this in zip(("observation_space", "action_space"), spaces[0], pair):
                if this != first:
                    raise EnvError(
                        f"environment {number} has {name} {this}, but environment 0 has {first}; all "
                        f"environments of a {self._owner} must have the same spaces"
                    )
        return EnvProperties(
            metadata,
            render_mode,
            SpaceArrays(spaces[0][0], "observation"),
            SpaceArrays(spaces[0][1], "action"),
            [identity for head, _ in made for identity in head[3]],
        )

    def _share_memory(self) -> None:
        for worker, numbers in zip(self._group.workers, self.index_ranges):
            spaces = (self.properties.observation, self.properties.action)
            size = max(StepMemory(None, len(numbers), *spaces).size, 2**16)  # the minimal size of a slot
            (flat,) = worker.channel.slots.allocate([((size,), np.dtype(np.uint8))])
            memory = StepMemory(flat, len(numbers), *spaces)
            memory.clear()
            self.memories.append(memory)
            worker.channel.send(("memory",), [flat])
            self._links.append(WorkerLink(worker.channel.socket))
        list(self._handshake("attached"))

    def _raise_failure(self, number: int, where: str, failure: Failure) -> NoReturn:
        error = unpack_error(failure)
        error.add_note(f"{where} ({self._member} {number}, {self._group.workers[number].process})")
        raise error

    def _raise_death(self, number: int) -> NoReturn:
        worker = self._group.workers[number]
        worker.process.ended(1.0)
        worker.process.kill()
        raise WorkerDiedError(
            f"{self._member} {number} ({worker.process}) {worker.process.how_it_ended()}, "
            f"{self._doing(number)}"
        )

    def _raise_timeout(self, number: int) -> NoReturn:
        worker: WorkerHandle = self._group.workers[number]
        raise EnvTimeoutError(
            f"a call took more than timeout={self._timeout:g} seconds {self._doing(number)}; {self._member} "
            f"{number} ({worker.process}) was killed. Increase the timeout, or find out why the environment "
            "is waiting"
        )

    def _doing(self, number: int) -> str:
        if number >= len(self._links):
            return self._making[number]
        return self.memories[number].doing(self.index_ranges[number][0])
