"""Flows with datapoints that cannot be read again: they have no position."""

import json
import queue
import threading
from itertools import islice

import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MapDataComponent,
    MultiProcessMapAndBatchData,
    MultiThreadMapData,
    MultiThreadRunner,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    RNGDataFlow,
    ShardData,
    StateError,
)
from towerpack_dataflow.testing import check_dataflow


class DataFromQueue(DataFlow):
    """Yields the items of a queue; `None` ends a pass."""

    live = True

    def __init__(self, numbers):
        self.queue = queue.SimpleQueue()
        for number in numbers:
            self.queue.put(number)

    def __iter__(self):
        while (number := self.queue.get(timeout=10)) is not None:
            yield [number]


class Counting(DataFromQueue):
    """Has a separate state."""

    seen = 0

    def __iter__(self):
        for datapoint in super().__iter__():
            self.seen += 1
            yield datapoint

    def state_dict(self):
        return {**super().state_dict(), "seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class Mixed(DataFlow):
    def __init__(self, *flows):
        self.parts = {"flows": flows}

    def __iter__(self):
        for datapoints in zip(*self.parts["flows"]):
            yield [*datapoints]


class LiveGenerator(DataFromGenerator):
    live = True


class LiveNoise(RNGDataFlow):
    live = True

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def __iter__(self):
        for number in self.numbers:
            yield [number, self.rng.random()]


class Odd(ProxyDataFlow):
    def __iter__(self):
        for datapoint in self.ds:
            if datapoint[0] % 2:
                yield datapoint


def plain(datapoint):
    return datapoint


OVER = {
    "itself": lambda ds: ds,
    "map": lambda ds: MapData(ds, plain),
    "random map": lambda ds: MapData(ds, lambda datapoint, rng: datapoint, rng=True),
    "filter": lambda ds: MapData(ds, plain, drops=True),
    "component": lambda ds: MapDataComponent(ds, abs),
    "fixed size": lambda ds: FixedSizeData(ds, 3),
    "fixed size anew": lambda ds: FixedSizeData(ds, 3, keep_state=False),
    "map of fixed size": lambda ds: MapData(FixedSizeData(MapData(ds, plain, drops=True), 3), plain),
    "print": lambda ds: MapData(PrintData(ds), plain),
    "repeated": lambda ds: FixedSizeData(RepeatedData(ds, -1), 4),
    "batch": lambda ds: MapData(BatchData(ds, 1), lambda batch: [int(batch[0][0])]),
    "one shard": lambda ds: ShardData(ds, 0, 1),
}


@pytest.mark.parametrize("over", OVER)
def test_nothing_is_skipped_or_made_again(over, capsys):
    """Neither from pass to pass, nor after a resume; each pulled datapoint is yielded."""
    source = DataFromQueue(range(40))
    flow = OVER[over](source)
    assert flow.live is True
    received = []
    for _ in range(2):
        received += islice(iter(flow), 3)
    state = json.loads(json.dumps(flow.state_dict()))
    assert state == {}
    other = OVER[over](source)  # as a new process finds it
    other.load_state_dict(state)
    received += islice(iter(other), 3)
    assert received == [[number] for number in range(9)]
    assert source.queue.qsize() == 31


def test_a_flow_is_live_over_live_ones_alone():
    assert not MapData(DataFromList([1]), plain).live
    assert not Mixed(DataFromList([1]), DataFromList([2])).live
    assert Mixed(DataFromList([1]), MapData(DataFromQueue([1]), plain)).live
    assert Odd(Odd(DataFromQueue([1]))).live
    assert LiveGenerator(lambda: iter("ab")).live


def test_a_live_iterator_continues_from_pass_to_pass():
    waiting = iter(range(20))
    flow = FixedSizeData(LiveGenerator(lambda: waiting), 4)
    assert [list(flow), list(flow), list(flow)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    waiting = iter(range(20))
    flow = FixedSizeData(LiveGenerator(waiting), 4)
    assert [list(flow), list(flow)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_live_flows_have_random_numbers():
    flow = FixedSizeData(LiveNoise(range(100)), 4)
    flow.seed(1)
    assert [number for number, _ in [*flow, *flow]] == list(range(8))


@pytest.mark.parametrize(
    "parallel",
    [
        lambda ds: MultiThreadMapData(ds, 2, plain),
        lambda ds: MultiThreadRunner(ds, 2),
        lambda ds: MultiProcessMapAndBatchData(ds, 2, plain, 1, start_method="thread", ordered=False),
    ],
)
def test_parallel_flows_over_a_live_one_are_live(parallel):
    source = DataFromQueue([*range(20), None, *range(20, 30), None])
    flow = parallel(source)
    assert flow.live is True
    assert flow.state_dict() == {}
    first = [int(datapoint[0] if isinstance(datapoint[0], int) else datapoint[0][0]) for datapoint in flow]
    second = [int(datapoint[0] if isinstance(datapoint[0], int) else datapoint[0][0]) for datapoint in flow]
    assert (sorted(first), sorted(second)) == (list(range(20)), list(range(20, 30)))


def test_states_of_live_flows_own_are_kept_and_apart():
    one, two = Counting(range(9)), Counting(range(9))
    flow = Mixed(MapData(one, plain), two)
    list(islice(iter(flow), 2))
    two.seen = 7
    state = json.loads(json.dumps(flow.state_dict()))
    assert state == {"live": {"0.0": {"seen": 2}, "1": {"seen": 7}}}
    fresh = Mixed(MapData(Counting([]), plain), Counting([]))
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state
    assert one.state_dict() == {"seen": 2}


def test_a_position_of_a_flow_that_was_not_live_yet_is_dropped():
    flow = MapData(DataFromQueue(range(5)), plain)
    flow.load_state_dict({"version": 1, "seed": 4, "epoch": 3, "index": 1000})
    assert next(iter(flow)) == [0]


@pytest.mark.parametrize("state", [[], {"more": 1}, {"live": 3}, {"live": {"0.9": {}}}])
def test_a_malformed_state_of_a_live_flow(state):
    flow = Mixed(Counting([1]), Counting([2]))
    with pytest.raises(StateError, match=r"a state is the dict|which is live, holds under 'live' the states"):
        flow.load_state_dict(state)


def test_a_live_state_is_no_position():
    with pytest.raises(StateError, match="missing, wrong or unknown here: 'seed', 'epoch', 'index'"):
        DataFromList([1]).load_state_dict({})


@pytest.mark.timeout(60)
def test_a_queue_that_a_thread_fills():
    source = DataFromQueue([])
    filled = threading.Thread(target=lambda: [source.queue.put(number) for number in range(50)])
    filled.start()
    flow = BatchData(FixedSizeData(MapData(source, plain), 10), 5)
    batches = [batch[0].tolist() for _ in range(5) for batch in flow]
    filled.join()
    assert batches == [list(range(first, first + 5)) for first in range(0, 50, 5)]


def test_conformance():
    check_dataflow(lambda: Mixed(DataFromQueue(range(9)), DataFromList(range(9))))
    check_dataflow(lambda: FixedSizeData(Counting(range(9)), 2))
