"""Hands out each datapoint of a pass once, and tracks the receivers, on the sender's side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

__all__ = ["Payload", "ShardQueue"]

_MOST_CREDIT = 2**12  # limit for one receiver, for any request


@final
@dataclass(frozen=True, eq=False, slots=True)
class Payload:
    """A datapoint in transit.

    Attributes:
        index: its number in the pass.
        frames: the message with the datapoint.
    """

    index: int
    frames: list[Any]


@final
@dataclass(slots=True)
class _Session:
    """One receiver, from the start of its pass or its connection to the end."""

    credit: int
    heard: float
    held: dict[int, Payload] = field(default_factory=dict)
    sent: int = 0
    taken: int = 0


@final
class ShardQueue:
    """Assigns each datapoint of a pass to one receiver, and to another one if that is lost.

    A receiver holds at most as many datapoints as its credit. A datapoint counts as handed out when its
    receiver reports that the consumer has taken it. When all are handed out, the pass is over and the next
    one begins. A plain class, without sockets and clock.

    Example:
        >>> passes = ShardQueue()
        >>> passes.join("a", credit=1, now=0.0)
        >>> passes.supply(Payload(0, []))
        >>> [(name, payload.index) for name, payload in passes.assignments()]
        [('a', 0)]
        >>> passes.leave("a")
        >>> passes.join("b", credit=1, now=0.0)
        >>> [(name, payload.index) for name, payload in passes.assignments()]
        [('b', 0)]
    """

    def __init__(self) -> None:
        self.number = 0  # number of the current pass
        self._sessions: dict[Any, _Session] = {}
        self._waiting: deque[Payload] = deque()
        self._supplied = False

    @property
    def sessions(self) -> list[Any]:
        """The receivers of the current pass."""
        return list(self._sessions)

    def wants_more(self) -> bool:
        """Tells whether a receiver is ready for a datapoint that is not available yet."""
        if self._supplied or self._waiting:
            return False
        return any(len(session.held) < session.credit for session in self._sessions.values())

    def supply(self, payload: Payload) -> None:
        """Adds the next datapoint of the pass."""
        self._waiting.append(payload)

    def end_supply(self) -> None:
        """Marks the end of the pass's datapoints."""
        self._supplied = True

    def join(self, name: Any, credit: int, now: float) -> None:
        """Starts a session; an existing one of the same name is kept."""
        session = self._sessions.setdefault(name, _Session(0, now))
        session.credit = max(1, min(credit, _MOST_CREDIT))

    def hear(self, name: Any, now: float, credit: int | None = None) -> tuple[int, int] | None:
        """Records a heartbeat; returns the numbers of datapoints sent to the receiver and taken by it.

        Returns:
            None: there is no such session.
        """
        session = self._sessions.get(name)
        if session is None:
            return None
        session.heard = now
        if credit is not None:
            session.credit = max(1, min(credit, _MOST_CREDIT))
        return session.sent, session.taken

    def take(self, name: Any, indices: Iterable[int]) -> None:
        """Marks datapoints taken by the consumer of `name` as handed out."""
        session = self._sessions.get(name)
        if session is not None:
            for index in indices:
                session.taken += session.held.pop(index, None) is not None

    def leave(self, name: Any) -> None:
        """Ends a session; its untaken datapoints are assigned to others."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self._waiting.extendleft(reversed(session.held.values()))

    def silent_since(self, moment: float) -> list[Any]:
        """Returns the sessions with their last message before `moment`."""
        return [name for name, session in self._sessions.items() if session.heard < moment]

    def assignments(self) -> Iterator[tuple[Any, Payload]]:
        """Assigns datapoints to the receivers, first to those that hold the fewest."""
        while self._waiting:
            free = [
                (len(one.held), name) for name, one in self._sessions.items() if len(one.held) < one.credit
            ]
            if not free:
                return
            _, name = min(free, key=lambda pair: pair[0])
            session, payload = self._sessions[name], self._waiting.popleft()
            session.held[payload.index] = payload
            session.sent += 1
            yield name, payload

    def end_pass(self) -> list[Any] | None:
        """Starts the next pass if this one is over; returns the receivers to notify.

        Returns:
            None: the pass is not over, or has no receivers yet.
        """
        busy = self._waiting or any(session.held for session in self._sessions.values())
        if not self._supplied or busy or not self._sessions:
            return None
        names = list(self._sessions)
        self._sessions.clear()
        self._supplied = False
        self.number += 1
        return names
