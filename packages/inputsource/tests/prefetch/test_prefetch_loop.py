import queue
import sys
import threading
import time
import weakref

import pytest

from towerpack_inputsource.prefetch import Activity, BufferClosed, FlowReader, PrefetchLoop, rest_after_put
from towerpack_inputsource.testing import FlowFailure, ListFlow


class Closed(Exception):
    pass


class Buffer:
    """A loop into a Python queue, and the account of its time."""

    def __init__(self, flow, put=None, in_flight=None, infinite=False):
        self.items = queue.Queue()
        self.activity = Activity("towerpack-test")
        reader = FlowReader(flow, infinite, list, KeyError)
        self.loop = PrefetchLoop(
            reader, reader.restart(), put or self.items.put, (Closed,), in_flight, self.activity
        )


def test_moves_everything_and_ends_with_the_flow():
    buffer = Buffer([[0], [1], [2]])
    assert len(list(buffer.loop.puts())) == 3
    assert list(buffer.items.queue) == [0, 1, 2]
    assert buffer.activity.read().doing == "ended"
    assert not buffer.loop.stopping


def test_an_error_comes_with_its_traceback():
    buffer = Buffer(ListFlow([[0], [1]], fails_at=1))
    with pytest.raises(FlowFailure) as caught:
        list(buffer.loop.puts())
    traceback = caught.value.__traceback__
    while traceback.tb_next:
        traceback = traceback.tb_next
    assert traceback.tb_frame.f_code.co_name == "_pass"
    assert list(buffer.items.queue) == [0]
    assert buffer.activity.read().doing == "ended"


def test_even_an_exit_comes_through():
    class Exits:
        def __iter__(self):
            yield [0]
            sys.exit(3)

    with pytest.raises(SystemExit):
        list(Buffer(Exits()).loop.puts())


def test_a_buffer_that_something_else_closed():
    def put(_):
        raise Closed

    buffer = Buffer([[0]], put)
    with pytest.raises(BufferClosed):
        list(buffer.loop.puts())
    assert not buffer.loop.stopping


def test_a_flow_with_the_error_of_a_closed_buffer():
    def failing():
        yield [0]
        raise Closed

    class Fails:
        def __iter__(self):
            return failing()

    with pytest.raises(Closed):
        list(Buffer(Fails()).loop.puts())


def test_a_put_that_is_woken_to_stop_leaves_a_loop_that_is_stopping():
    def put(_):
        buffer.loop.stop()
        raise Closed

    buffer = Buffer([[0]], put)
    with pytest.raises(BufferClosed):
        list(buffer.loop.puts())
    assert buffer.loop.stopping


def test_stops_before_the_next_datapoint():
    buffer = Buffer([[0], [1]])
    for _ in buffer.loop.puts():
        buffer.loop.stop()
    assert list(buffer.items.queue) == [0]
    assert buffer.activity.read().doing == "ended"


def test_a_rest_ends_at_once_when_the_loop_is_to_stop():
    buffer = Buffer([[0], [1]])
    began = time.monotonic()
    for _ in buffer.loop.puts():
        threading.Timer(0.05, buffer.loop.stop).start()
        buffer.loop.rest(60.0)
    assert list(buffer.items.queue) == [0]
    assert time.monotonic() - began < 30


class Mark(dict):
    """A position that a weak reference can watch."""


class Marking:
    """A flow of ten datapoints that remembers each position it gave, if it is still in use."""

    def __init__(self):
        self.flow = ListFlow([[k] for k in range(10)])
        self.given = []

    def __iter__(self):
        return iter(self.flow)

    def state_dict(self):
        mark = Mark(self.flow.state_dict())
        self.given.append(weakref.ref(mark))
        return mark

    def kept(self):
        return sum(reference() is not None for reference in self.given)


@pytest.mark.parametrize("in_flight", [None, 4])
def test_position_of_the_consumer(in_flight):
    flow = Marking()
    loop = Buffer(flow, in_flight=in_flight).loop
    assert len(list(loop.puts())) == 10
    assert flow.kept() == (11 if in_flight is None else in_flight + 1)
    for consumed in range(0 if in_flight is None else 6, 11):
        assert loop.position(consumed) == {"next": consumed}
    assert flow.kept() == 1


@pytest.mark.parametrize(
    ("put_seconds", "count", "capacity", "rest"),
    [
        (0.002, 1, 40, 0.02),  # the time of a quarter of the buffer's takes
        (0.002, 10, 40, 0.002),  # the put waited for ten of them
        (0.5, 1, 40, 0.03),  # a slow step does not make a long rest
        (1e-4, 1, 40, 0.0),  # a put into a buffer with room
        (0.002, 1, 3, 0.0),  # too small to leave a part of it empty
        (0.002, 1, None, 0.0),
    ],
)
def test_the_rest_after_a_put_into_a_full_buffer(put_seconds, count, capacity, rest):
    assert rest_after_put(put_seconds, count, capacity, lambda: True) == pytest.approx(rest)


def test_no_rest_where_the_buffer_has_room():
    assert rest_after_put(0.002, 1, 40, lambda: False) == 0


def test_a_quick_put_does_not_look_at_the_buffer():
    def never():
        raise AssertionError

    assert rest_after_put(1e-4, 1, 40, never) == 0
