"""The status of an input as plain data, and the record of a thread's time. Needs no TensorFlow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, final

from towerpack_dataflow import process_spans

__all__ = ["Activity", "Buffer", "InputStatus", "ThreadActivity"]


@final
class Buffer(NamedTuple):
    """The fill of one buffer.

    Attributes:
        name: name of the buffer.
        fill: number of datapoints in it; None while no session is open.
        capacity: maximum number of datapoints; None if unbounded.

    Example:
        >>> Buffer("queue", fill=40, capacity=50)
        Buffer(name='queue', fill=40, capacity=50)
    """

    name: str
    fill: int | None
    capacity: int | None


@final
class ThreadActivity(NamedTuple):
    """The current activity of one thread, and the use of its time since the session started.

    Attributes:
        name: the thread's name, as in `threading.enumerate()` and stack dumps.
        doing: "flow" while it waits for the next datapoint, "put" while it waits for free space, "ended"
            after its end.
        for_seconds: duration of the current activity.
        seconds_in_flow: total seconds in "flow", including the current activity.
        seconds_in_put: total seconds in "put", including the current activity.

    Example:
        >>> thread = ThreadActivity("reader", "put", 0.5, seconds_in_flow=2.0, seconds_in_put=8.0)
        >>> thread.seconds_in_put / (thread.seconds_in_flow + thread.seconds_in_put)
        0.8
    """

    name: str
    doing: str
    for_seconds: float
    seconds_in_flow: float
    seconds_in_put: float

    @property
    def flow_share(self) -> float:
        """The fraction of time that the thread waited for datapoints: near 1, the flow is the bottleneck."""
        total = self.seconds_in_flow + self.seconds_in_put
        return self.seconds_in_flow / total if total else 0.0


@final
class InputStatus(NamedTuple):
    """The status of an input: the fill of its buffers and the activity of its threads.

    Attributes:
        source: the kind of source.
        buffers: the buffers, in the order from the data to the model.
        threads: the threads, in the same order.

    Example:
        >>> InputStatus("QueueInput", (Buffer("queue", 40, 50),)).buffers[0].fill
        40
    """

    source: str
    buffers: tuple[Buffer, ...] = ()
    threads: tuple[ThreadActivity, ...] = ()

    def since(self, earlier: InputStatus) -> InputStatus:
        """Returns this status with only the seconds after an earlier status."""
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


@final
class Activity:
    """A record of a thread's time, written by that thread and read by any thread.

    If a trace is recorded (see `towerpack_dataflow.process_spans`), each activity is a span of it.

    Args:
        name: the thread's name.
        clock: returns the time in seconds.

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
        self._spans = process_spans()
        # One tuple, replaced atomically, so that a reader in another thread never sees a partial change.
        self._now = ("ended", clock(), 0.0, 0.0)

    def enter(self, doing: str) -> None:
        """Starts another activity of the thread."""
        was, began, flow, put = self._now
        now = self._clock()
        if was == "flow":
            flow += now - began
        elif was == "put":
            put += now - began
        self._now = (doing, now, flow, put)
        if was != "ended":
            self._spans.add(_DOING[was], "wait", began)
        if doing == "ended":
            self._spans.flush()

    def read(self) -> ThreadActivity:
        """Returns the record up to now."""
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
        return thread  # from an older session: all time of this one is later
    return thread._replace(
        seconds_in_flow=thread.seconds_in_flow - earlier.seconds_in_flow,
        seconds_in_put=thread.seconds_in_put - earlier.seconds_in_put,
    )
