"""Datapoints that are put many at a time: nothing of it can be seen but the number of puts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_inputsource.prefetch import Activity, BufferClosed, FlowReader, PrefetchLoop
from towerpack_inputsource.testing import FlowFailure, ListFlow


class Closed(Exception):
    pass


class Stacks:
    """A loop into a list, and the number of datapoints in each put."""

    def __init__(self, flow, most, in_flight=None, infinite=False):
        self.values = []
        self.puts = []
        reader = FlowReader(flow, infinite, lambda datapoint: list(map(np.asarray, datapoint)))
        self.loop = PrefetchLoop(
            reader,
            reader.restart(),
            lambda array: self.put(array[None]),
            (Closed,),
            in_flight,
            Activity("towerpack-test"),
            self.put,
            most,
        )

    def put(self, stack):
        self.puts.append(len(stack))
        self.values += [array.copy() for array in stack]


lengths = st.lists(st.integers(1, 3), max_size=40)


def arrays(lengths):
    return [[np.full(length, number)] for number, length in enumerate(lengths)]


def equal(values, datapoints):
    return [value.tolist() for value in values] == [array.tolist() for [array] in datapoints]


@given(lengths, st.integers(1, 16))
def test_any_shapes_arrive_in_order_and_each_once(lengths, most):
    stacks = Stacks(ListFlow(arrays(lengths)), most)
    list(stacks.loop.puts())
    assert equal(stacks.values, arrays(lengths))
    assert max(stacks.puts, default=1) <= most


@given(st.integers(0, 40), st.integers(1, 16))
def test_a_position_after_each_datapoint(length, most):
    stacks = Stacks(ListFlow(arrays([2] * length)), most)
    list(stacks.loop.puts())
    assert [stacks.loop.position(count) for count in range(length + 1)] == [
        {"next": count} for count in range(length + 1)
    ]


@given(st.integers(1, 40), st.integers(1, 16), st.integers(1, 5))
def test_only_positions_that_may_be_needed_are_kept(length, most, capacity):
    stacks = Stacks(ListFlow(arrays([2] * length)), most, in_flight=capacity + 1)
    put = 0
    for _ in stacks.loop.puts():
        before, put = put, put + stacks.puts[-1]
        # During a put of n datapoints, the buffer holds up to `capacity`, of which none may be from it.
        for consumed in range(max(0, before - capacity), put + 1):
            assert stacks.loop._positions[consumed - put - 1] == {"next": consumed}


@given(lengths, st.integers(1, 16), st.data())
def test_an_error_follows_all_datapoints_before_it(lengths, most, data):
    fails_at = data.draw(st.integers(0, len(lengths)))
    stacks = Stacks(ListFlow(arrays([*lengths, 1]), fails_at=fails_at), most)
    with pytest.raises(FlowFailure, match=f"datapoint {fails_at} "):
        list(stacks.loop.puts())
    assert equal(stacks.values, arrays(lengths)[:fails_at])


@given(st.integers(1, 7), st.integers(1, 16))
def test_passes_repeat_within_a_stack(length, most):
    stacks = Stacks(ListFlow(arrays([2] * length)), most, infinite=True)
    for _ in stacks.loop.puts():
        if len(stacks.values) > 50:
            stacks.loop.stop()
    assert [value[0] for value in stacks.values] == [k % length for k in range(len(stacks.values))]


def test_one_buffer_for_every_datapoint_corrupts_nothing():
    buffer = np.zeros(3)

    class Reused:
        def __iter__(self):
            for number in range(100):
                buffer[:] = number
                yield [buffer]

    stacks = Stacks(Reused(), 8)
    list(stacks.loop.puts())
    assert [value[0] for value in stacks.values] == list(range(100))
    assert max(stacks.puts) == 8


def test_large_datapoints_are_put_without_a_copy():
    large = [np.zeros(1 << 18, "uint8") for _ in range(5)]
    put = []
    reader = FlowReader([[array] for array in large], False, list)
    loop = PrefetchLoop(
        reader, reader.restart(), put.append, (), None, Activity("towerpack-test"), pytest.fail, 8
    )
    list(loop.puts())
    assert all(array is given for array, given in zip(put, large, strict=True))


def test_a_slow_flow_is_not_waited_for():
    now = [0.0]

    class Slow(ListFlow):
        def _pass(self):
            for datapoint in super()._pass():
                now[0] += 0.01
                yield datapoint

    stacks = Stacks(Slow(arrays([2] * 20)), 8)
    while len(stacks.values) < 20:
        stacks.loop._collector.next_put(lambda: now[0])[0]()
    assert stacks.puts == [1] * 20


def test_a_stack_into_a_closed_buffer():
    stacks = Stacks(ListFlow(arrays([2] * 20)), 8)

    def put(stack):
        raise Closed

    stacks.loop._collector._put_many = put
    with pytest.raises(BufferClosed):
        list(stacks.loop.puts())
