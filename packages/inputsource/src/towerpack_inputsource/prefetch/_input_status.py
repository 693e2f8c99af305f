"""Where an input stands, as plain data: what a training waits for. Knows no TensorFlow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Buffer(NamedTuple):
    """How full one buffer is.

    Attributes:
        name: which one.
        fill: how many datapoints it holds; None while no session is open that could tell.
        capacity: how many it can hold; None if there is no bound.
    """

    name: str
    fill: int | None
    capacity: int | None


class ThreadActivity(NamedTuple):
    """What one thread is doing, and where its time went since the session began.

    Attributes:
        name: the thread's name, as `threading.enumerate()` and stack dumps have it.
        doing: "flow" while it waits for the next datapoint, "put" while it waits for room to put one,
            "ended" when it has left.
        for_seconds: for how long.
        seconds_in_flow: in all; the current stretch is included.
        seconds_in_put: likewise.
    """

    name: str
    doing: str
    for_seconds: float
    seconds_in_flow: float
    seconds_in_put: float

    @property
    def flow_share(self) -> float:
        """The part of its time that it waited for datapoints: near 1, the data is slower than the model."""
        total = self.seconds_in_flow + self.seconds_in_put
        return self.seconds_in_flow / total if total else 0.0


class InputStatus(NamedTuple):
    """Where an input stands.

    Attributes:
        source: the kind of source.
        buffers: from the data to the model.
        threads: likewise.
    """

    source: str
    buffers: tuple[Buffer, ...] = ()
    threads: tuple[ThreadActivity, ...] = ()

    def since(self, earlier: InputStatus) -> InputStatus:
        """Returns the same with only the seconds that were spent after an earlier status was taken."""
        before = {thread.name: thread for thread in earlier.threads}
        return self._replace(threads=tuple(_since(thread, before) for thread in self.threads))

    def __str__(self) -> str:
        parts = [
            f"{buffer.name} holds {'?' if buffer.fill is None else buffer.fill} of {buffer.capacity or 'any'}"
            for buffer in self.buffers
        ]
        parts += [
            f"{thread.name} {_DOING[thread.doing]} for {thread.for_seconds:.1f} s" for thread in self.threads
        ]
        return f"{self.source}: {'; '.join(parts) or 'nothing is prefetched'}"


class Activity:
    """Keeps a thread's account of its time; written by that thread, read by any.

    Args:
        name: the thread's name.
        clock: tells seconds.

    Example:
        >>> now = iter([0.0, 1.0, 4.0, 6.0])
        >>> activity = Activity("loader", lambda: next(now))
        >>> activity.enter("flow")
        >>> activity.enter("put")
        >>> activity.read()
        ThreadActivity(name='loader', doing='put', for_seconds=2.0, seconds_in_flow=3.0, seconds_in_put=2.0)
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        # One tuple, replaced as a whole: a reader in another thread never sees half of a change.
        self._now = ("ended", clock(), 0.0, 0.0)

    def enter(self, doing: str) -> None:
        """Says that the thread begins with something else."""
        was, began, flow, put = self._now
        now = self._clock()
        if was == "flow":
            flow += now - began
        elif was == "put":
            put += now - began
        self._now = (doing, now, flow, put)

    def read(self) -> ThreadActivity:
        """Returns the account up to now."""
        doing, began, flow, put = self._now
        lasted = self._clock() - began
        return ThreadActivity(
            self.name,
            doing,
            lasted,
            flow + (lasted if doing == "flow" else 0.0),
            put + (lasted if doing == "put" else 0.0),
        )


_DOING = {"flow": "waits for the next datapoint", "put": "waits for room", "ended": "has ended"}


def _since(thread: ThreadActivity, before: dict[str, ThreadActivity]) -> ThreadActivity:
    earlier = before.get(thread.name)
    if earlier is None or earlier.seconds_in_flow > thread.seconds_in_flow:
        return thread  # of an older session: all of this one came later
    return thread._replace(
        seconds_in_flow=thread.seconds_in_flow - earlier.seconds_in_flow,
        seconds_in_put=thread.seconds_in_put - earlier.seconds_in_put,
    )
