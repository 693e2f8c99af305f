"""Blocks of batches built from datapoints: equal to batches built one by one, states included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromGenerator,
    DataFromList,
    FilterData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    RepeatedData,
)
from towerpack_dataflow.batch import _collated_blocks
from towerpack_dataflow.testing import check_dataflow, same


def points(size, shuffle=True):
    return DataFromList([[np.full(3, number), number] for number in range(size)], shuffle=shuffle)


def odd(datapoint):
    return datapoint[1] % 2 == 1


def lengths(datapoint):
    """Makes arrays of two lengths, 6 datapoints of each in turn."""
    return {"x": datapoint[0][: 1 + datapoint[1] // 6 % 2], "y": np.int16(datapoint[1])}


def undeclared(datapoint):
    return None if datapoint[1] == 13 else datapoint


BELOW = {
    "list": points,
    "map": lambda size: MapData(points(size), lambda datapoint: (datapoint[0] * 2, datapoint[1])),
    "component": lambda size: MapDataComponent(points(size), float, 1),
    "filter": lambda size: FilterData(points(size), odd),
    "repeated filter": lambda size: RepeatedData(FilterData(points(size), odd), 2),
    "shuffled filter": lambda size: LocallyShuffleData(FilterData(points(size), odd), 7),
    "two lengths": lambda size: MapData(points(size, shuffle=False), lengths),
    "undeclared drop": lambda size: MapData(points(size), undeclared),
}


def read(make, start, most, first):
    """The batches of a pass with the state after each: one by one, and in blocks."""
    results = []
    for in_blocks in (False, True):
        flow = make()
        flow.seed(3)
        before = [flow.state_dict(), *(flow.state_dict() for _ in flow)]
        flow = make()
        flow.load_state_dict(before[min(start, max(len(before) - 2, 0))])
        batches, states = [], []
        if in_blocks:
            for block in flow.iter_blocks(most, first):
                keyed = isinstance(block, dict)
                rows = list(zip(*(block.values() if keyed else block)))
                batches += [dict(zip(block, row)) if keyed else type(block)(row) for row in rows]
                states += flow.last_states(len(rows))
        else:
            for batch in flow:
                batches.append(batch)
                states.append(flow.state_dict())
        results.append((batches, states, flow.state_dict()))
    return results


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW)
@settings(max_examples=20)
@given(
    size=st.integers(6, 70),
    batch_size=st.sampled_from([1, 2, 3, 6]),
    remainder=st.booleans(),
    start=st.integers(0, 20),
    most=st.integers(2, 9),
    first=st.integers(1, 9),
)
def test_blocks_have_the_batches_and_the_states_of_single_ones(
    below, size, batch_size, remainder, start, most, first
):
    single, blocks = read(lambda: BatchData(below(size), batch_size, remainder), start, most, first)
    assert same(blocks[0], single[0])
    assert blocks[1:] == single[1:]


@pytest.mark.parametrize("below", ["map", "filter", "two lengths"])
def test_flows_with_such_blocks_conform(below):
    check_dataflow(BatchData(BELOW[below](60), 3, remainder=True))


def test_an_error_follows_the_batches_before_it():
    def fail(datapoint):
        if datapoint[1] == 17:
            raise OSError("damaged")
        return datapoint

    flow = BatchData(MapData(points(40, shuffle=False), fail), 2)
    received = []
    with pytest.raises(OSError, match="damaged") as caught:
        for _, numbers in flow.iter_blocks(8, 8):
            received += numbers.tolist()
    assert received == [[number, number + 1] for number in range(0, 16, 2)]
    assert flow.state_dict()["index"] == 8
    assert any("> MapData(" in note and "datapoint 8 of epoch 0" in note for note in caught.value.__notes__)


def test_a_batch_of_unlike_datapoints_is_named_after_those_before_it():
    flow = BatchData(MapData(points(40, shuffle=False), lengths), 4)
    received = []
    with pytest.raises(ValueError, match=r"datapoint 6 of the pass has shape \(2,\)"):
        for block in flow.iter_blocks(8, 8):
            received += block["y"].tolist()
    assert received == [[0, 1, 2, 3]]


def test_one_array_for_every_datapoint_is_copied():
    memory = np.zeros(3)

    def filled(datapoint):
        memory[:] = datapoint[1]
        return [memory]

    flow = BatchData(MapData(points(40, shuffle=False), filled), 4)
    blocks = list(flow.iter_blocks(8))
    assert np.concatenate([block[:, :, 0].ravel() for [block] in blocks]).tolist() == list(range(40))


@pytest.mark.parametrize(
    "datapoints",
    [
        [{"x": 0, "y": 1}, {"y": 2, "x": 3}, {"x": 4, "y": 5}, {"y": 6, "x": 7}],
        [[np.array("ab")], [np.str_("cd")], [np.array("ef")], [np.array("gh")]],
        [[np.array(b"ab")], [np.bytes_(b"cd")]],
    ],
    ids=["order of keys", "text", "bytes"],
)
def test_batches_of_a_block_are_built_alike(datapoints):
    (single, *_), (blocks, *_) = read(lambda: BatchData(DataFromList(datapoints, shuffle=False), 1), 0, 8, 8)
    assert same(blocks, single)
    assert list(map(list, blocks)) == list(map(list, single))


def test_a_slow_flow_gives_its_batches_one_by_one(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(_collated_blocks, "perf_counter", lambda: seconds[0])

    def slow(datapoint):
        seconds[0] += 1e-3
        return datapoint

    flow = BatchData(MapData(points(60), slow), 3)
    assert [len(block) for block, _ in flow.iter_blocks(8, 8)] == [1] * 20
    seconds_each = BatchData(MapData(points(60), slow), 1)
    assert [len(block) for block, _ in seconds_each.iter_blocks(8)][:3] == [1, 2, 3]


def test_large_batches_come_one_by_one():
    large = np.zeros(1 << 16)
    flow = BatchData(DataFromList([[large]] * 12, shuffle=False), 2)
    assert [len(block) for [block] in flow.iter_blocks(8, 8)] == [1] * 6


def test_live_flows_have_no_blocks():
    live = DataFromGenerator(lambda: iter([[1], [2]]), live=True)
    assert BatchData(live, 1).iter_blocks(8) is None
