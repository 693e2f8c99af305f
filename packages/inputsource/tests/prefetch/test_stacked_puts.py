"""Datapoints that are put many at a time: nothing of it can be seen but the number of puts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    FilterData,
    LocallyShuffleData,
    MapData,
    ProxyDataFlow,
)
from towerpack_inputsource import DatapointStructureError, DatapointTypeError, input_for
from towerpack_inputsource.prefetch import (
    Activity,
    BufferClosed,
    FlowReader,
    PrefetchLoop,
    needs_no_training,
)
from towerpack_inputsource.prefetch._put_collector import PutCollector
from towerpack_inputsource.specs import Component, compile_check
from towerpack_inputsource.testing import FlowFailure, ListFlow


class Closed(Exception):
    pass


class Stacks:
    """A loop into a list, and the number of datapoints in each put."""

    def __init__(self, flow, most, in_flight=None, infinite=False, check_block=None):
        self.values = []
        self.puts = []
        check = lambda datapoint: list(map(np.asarray, datapoint))  # noqa: E731
        reader = FlowReader(flow, infinite, check, check_block=check_block, most=most)
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


def batches(size, batch_size=3, values=None):
    return BatchData(DataFromArrays([np.arange(size) if values is None else values]), batch_size)


INTS = compile_check([Component("x", np.dtype(np.int64), (None, None))])


def points(size):
    return MapData(DataFromList([[number] for number in range(size)]), lambda point: [np.int64(point[0])])


def measured(size):
    return input_for(BatchData(points(size), 3))._flow


FLOWS = {
    "arrays": batches,
    "map": lambda size: BatchData(points(size), 3),
    "filter": lambda size: BatchData(FilterData(points(size), lambda point: point[0] % 4), 3, remainder=True),
    "shuffle": lambda size: BatchData(LocallyShuffleData(points(size), 5), 3),
    "measured": measured,
}


@pytest.mark.parametrize("flow_of", FLOWS.values(), ids=FLOWS)
@given(st.integers(4, 80), st.integers(2, 16), st.integers(0, 25))
def test_blocks_of_a_flow_arrive_as_its_datapoints_do(flow_of, size, most, start):
    def read(check_block):
        flow = flow_of(size)
        flow.seed(5)
        flow.load_state_dict({**flow.state_dict(), "index": min(start, size // 6)})
        stacks = Stacks(flow, most, infinite=True, check_block=check_block)
        for _ in stacks.loop.puts():
            if len(stacks.values) > 60:
                stacks.loop.stop()
        values = [value.tolist() for value in stacks.values[:60]]
        return values, [stacks.loop.position(count) for count in range(60)]

    assert read(INTS) == read(None)


def test_flows_that_wait_for_no_step():
    class Own(ProxyDataFlow):
        def __iter__(self):
            yield from self.ds

    filtered = FilterData(points(4), bool)
    for flow in ([[1]], points(4), filtered, BatchData(filtered, 2), measured(4)):
        assert needs_no_training(flow)
    for flow in (DataFromGenerator(lambda: iter([[1]])), Own(points(4)), BatchData(Own(points(4)), 2)):
        assert not needs_no_training(flow)


def test_a_flow_may_leave_its_blocks_between_passes():
    class Moving:
        """Like a flow that is moved to a worker after its first pass."""

        def __init__(self, flow):
            self.reads, self.passes = flow, 0

        def __iter__(self):
            return iter(self.reads)

        def iter_blocks(self, most, first):
            self.passes += 1
            return self.reads.iter_blocks(most, first) if self.passes == 1 else None

        def last_states(self, count):
            return self.reads.last_states(count)

    stacks = Stacks(Moving(batches(30)), 4, infinite=True, check_block=INTS)
    for _ in stacks.loop.puts():
        if len(stacks.values) > 25:
            stacks.loop.stop()
    for number in (0, 10):
        assert sorted(np.concatenate(stacks.values[number : number + 10]).tolist()) == list(range(30))


def test_an_invalid_datapoint_of_a_block_is_named():
    values = np.arange(60, dtype=np.int64)
    values[31] = 2**40
    flow = BatchData(DataFromArrays([values], shuffle=False), 2)
    checks = [compile_check([Component("x", np.dtype(np.int32), shape)]) for shape in ((2,), (None, 2))]
    reader = FlowReader(flow, False, checks[0], check_block=checks[1], most=8)
    reader.restart()
    received = []
    with pytest.raises(DatapointTypeError, match=r"Datapoint 15 \(number 15 of pass 0"):
        while True:
            block = reader.read_block()
            received += block[0][0].tolist() if block else [reader.dequeue()[0].tolist()]
    assert received == [[number, number + 1] for number in range(0, 30, 2)]
    assert reader.position()["index"] == 16


@pytest.mark.parametrize("nothing", [list, dict])
@pytest.mark.parametrize("wrap", [lambda flow: flow, lambda flow: input_for(flow)._flow])
def test_datapoints_without_components_are_refused_and_do_not_end_the_data(nothing, wrap):
    """A map that returns an empty list by mistake, for example."""
    check, check_block = (
        compile_check([Component("x", np.dtype(int), shape)]) for shape in ((2,), (None, 2))
    )
    flow = wrap(BatchData(MapData(DataFromList(range(20)), lambda _: nothing()), 2))
    reader = FlowReader(flow, False, check, check_block=check_block, most=8)
    reader.restart()
    assert reader.read_block() is None
    with pytest.raises(DatapointStructureError, match=r"Datapoint 0 \(number 0 of pass 0"):
        reader.dequeue()


def test_a_slow_flow_without_blocks_is_put_one_by_one():
    seconds = [0.0]

    def slow(datapoint):
        seconds[0] += 0.005
        return datapoint

    flow = MapData(DataFromList([[np.full(2, number)] for number in range(20)]), slow)
    reader = FlowReader(flow, False, list, check_block=INTS, most=8)
    reader.restart()
    collector = PutCollector(reader, lambda *arrays: None, lambda *stacks: None, 8)
    for number in range(1, 21):
        _, positions = collector.next_put(lambda: seconds[0])
        assert [position["index"] for position in positions] == [number]
