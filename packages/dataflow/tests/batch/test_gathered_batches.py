"""Batches over arrays: several small ones are gathered by one call, which no consumer may notice."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromList,
    FixedSizeData,
    RepeatedData,
    ShardData,
)
from towerpack_dataflow.testing import check_dataflow, same


class Rows:
    """A stored array, like one of zarr, that counts the rows read, and cannot read some."""

    def __init__(self, values, damaged=()):
        self.values, self.damaged = values, set(damaged)
        self.shape, self.dtype = values.shape, values.dtype
        self.read = 0

    def __getitem__(self, rows):
        wanted = np.arange(len(self.values))[rows]
        self.read += wanted.size
        if self.damaged.intersection(wanted.ravel().tolist()):
            raise OSError("a damaged chunk")
        return self.values[rows]


def arrays(size, shuffle=True):
    return DataFromArrays({"x": np.arange(3 * size).reshape(size, 3), "y": np.arange(size)}, shuffle)


BELOW = {
    "arrays": arrays,
    "repeated": lambda size: RepeatedData(arrays(size), 3),
    "of fixed size": lambda size: FixedSizeData(RepeatedData(arrays(size), 3), 2 * size + 1),
    "shard": lambda size: ShardData(arrays(2 * size), 1, 2),
}


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW)
@settings(max_examples=25)
@given(
    size=st.integers(1, 60), batch_size=st.integers(1, 8), remainder=st.booleans(), start=st.integers(0, 30)
)
def test_batches_equal_those_made_one_by_one(below, size, batch_size, remainder, start):
    datapoints = below(size)
    flow = BatchData(datapoints, min(batch_size, len(datapoints)), remainder=remainder)
    flow.seed(size)
    flow.load_state_dict({**flow.state_dict(), "index": (start := min(start, len(flow)))})
    batches = list(flow)
    assert len(batches) == len(flow) - start
    assert all(same(batch, flow.datapoint(0, start + number)) for number, batch in enumerate(batches))


@pytest.mark.parametrize("remainder", [True, False])
def test_each_row_is_in_one_batch(remainder):
    batches = list(BatchData(arrays(603), 4, remainder=remainder))
    assert [len(batch["y"]) for batch in batches] == [4] * 150 + [3] * remainder
    rows = np.concatenate([batch["y"] for batch in batches])
    assert np.array_equal(np.concatenate([batch["x"] for batch in batches]), 3 * rows[:, None] + np.arange(3))
    assert len(set(rows.tolist())) == len(rows)


def test_the_state_counts_the_batches_seen():
    flow = BatchData(arrays(1000), 4)
    flow.seed(1)
    expected = [batch["y"].tolist() for batch in flow]
    flow.load_state_dict({**flow.state_dict(), "epoch": 0, "index": 0})
    iterator, states = iter(flow), []
    for _ in range(100):
        next(iterator)
        states.append(flow.state_dict())
    for number, state in enumerate(states[::7]):
        assert state["index"] == 7 * number + 1
        flow.load_state_dict(state)
        assert next(iter(flow))["y"].tolist() == expected[7 * number + 1]


def test_an_error_comes_with_the_batch_that_it_belongs_to():
    flow = BatchData(DataFromArrays([Rows(np.arange(200), damaged=[101])], shuffle=False), 4)
    iterator = iter(flow)
    assert [batch[0].tolist() for batch in islice(iterator, 25)] == np.arange(100).reshape(25, 4).tolist()
    with pytest.raises(OSError, match="a damaged chunk") as caught:
        next(iterator)
    assert any("datapoint 25 of epoch 0" in note for note in caught.value.__notes__)


def test_batches_are_separate_and_may_be_written_to():
    batches = [batch["y"] for batch in BatchData(arrays(64, shuffle=False), 4)]
    for number, batch in enumerate(batches):
        batch[:] = -number
    assert [batch.tolist() for batch in batches] == [[-number] * 4 for number in range(16)]


def test_lent_batches_are_read_only_and_so_are_their_bases():
    flow = BatchData(arrays(64), 4)
    flow.lend_read_only()
    for batch in flow:
        for array in batch.values():
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
            assert array.base is None or not array.base.flags.writeable


def test_batches_are_read_only_from_the_call_on():
    flow = BatchData(arrays(64), 4)
    iterator = iter(flow)
    before = [next(iterator)["y"] for _ in range(2)]  # the first of two gathered together
    flow.lend_read_only()
    after = [batch["y"] for batch in iterator]
    assert [array.flags.writeable for array in before + after] == [True] * 2 + [False] * 14


def test_one_batch_by_its_index_reads_its_own_rows_alone():
    rows = Rows(np.arange(1000))
    flow = BatchData(DataFromArrays([rows], shuffle=False), 4)
    assert flow.datapoint(0, 30)[0].tolist() == [120, 121, 122, 123]
    assert rows.read == 4


def test_the_first_batch_waits_for_no_other_and_each_row_is_read_once():
    rows = Rows(np.arange(1000))
    iterator = iter(BatchData(DataFromArrays([rows], shuffle=False), 4))
    next(iterator)
    assert rows.read == 4
    list(iterator)
    assert rows.read == 1000


def taken(flow, most, first=1):
    """The datapoints of the blocks of a pass, and the state after each."""
    datapoints, states = [], []
    for block in flow.iter_blocks(most, first):
        datapoints += [dict(zip(block, values)) for values in zip(*block.values())]
        states += flow.last_states(len(datapoints) - len(states))
    return datapoints, states


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW)
@settings(max_examples=25)
@given(
    size=st.integers(1, 60),
    batch_size=st.integers(1, 8),
    remainder=st.booleans(),
    start=st.integers(0, 30),
    most=st.integers(2, 9),
    first=st.integers(1, 9),
)
def test_blocks_have_the_batches_and_the_states_of_single_ones(
    below, size, batch_size, remainder, start, most, first
):
    flow = BatchData(below(size), min(batch_size, len(below(size))), remainder=remainder)
    flow.seed(size)
    begin = {**flow.state_dict(), "index": min(start, len(flow) - 1)}
    flow.load_state_dict(begin)
    expected = [(batch, flow.state_dict()) for batch in flow]
    flow.load_state_dict(begin)
    datapoints, states = taken(flow, most, first)
    assert len(datapoints) == len(expected)
    assert all(map(same, datapoints, (batch for batch, _ in expected)))
    assert states == [state for _, state in expected]
    assert flow.state_dict()["epoch"] == 1


def test_flows_with_blocks_conform():
    check_dataflow(BatchData(arrays(100), 3))
    check_dataflow(BatchData(DataFromArrays([np.arange(20)]), 3, remainder=True))


def test_blocks_begin_small_and_grow():
    flow = BatchData(arrays(400), 4)
    assert [len(block["y"]) for block in flow.iter_blocks(16)] == [1, 2, 4, 8, 16, 16, 16, 16, 16, 5]
    assert [len(block["y"]) for block in flow.iter_blocks(16, 16)][:2] == [16, 16]


def test_flows_without_blocks_start_no_pass():
    class Own(BatchData):
        def datapoint(self, epoch, index):
            return [index]

    large = BatchData(DataFromArrays([np.zeros((8, 1 << 16))]), 2)
    for flow in (arrays(4), BatchData(DataFromList([[1], [2]]), 1, use_list=True), Own(arrays(9), 3), large):
        flow.seed(0)
        before = flow.state_dict()
        assert flow.iter_blocks(8) is None
        assert flow.state_dict() == before


def test_an_error_within_a_block_follows_the_batches_before_it():
    flow = BatchData(DataFromArrays([Rows(np.arange(40), damaged=[17])], shuffle=False), 2)
    received = []
    with pytest.raises(OSError, match="a damaged chunk"):
        for [block] in flow.iter_blocks(8, 8):
            received += block.tolist()
    assert received == [[number, number + 1] for number in range(0, 16, 2)]
    assert flow.state_dict()["index"] == 8


def test_the_numbers_of_a_block_are_above_zero():
    flow = BatchData(arrays(4), 2)
    for most, first in ((0, 1), (2, 0), (True, 1)):
        with pytest.raises(ValueError, match=r"most|first"):
            flow.iter_blocks(most, first)
