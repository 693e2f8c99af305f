import weakref
from collections import namedtuple

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    BatchError,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    ShardData,
    TestDataSpeed,
)
from towerpack_dataflow.batch import BatchAllocator
from towerpack_dataflow.testing import check_dataflow, same

Sample = namedtuple("Sample", "image label")


def images(size=10):
    return DataFromList([[np.full((2, 3), i, np.uint8), i] for i in range(size)])


FLOWS = {
    "lists": lambda: BatchData(images(), 3),
    "remainder": lambda: BatchData(images(), 3, remainder=True),
    "even": lambda: BatchData(images(), 5, remainder=True),
    "of one": lambda: BatchData(images(), 1),
    "lists kept": lambda: BatchData(images(), 4, remainder=True, use_list=True),
    "dicts": lambda: BatchData([{"a": i, "b": str(i)} for i in range(7)], 2),
    "named tuples": lambda: BatchData([Sample(np.float64(i), i) for i in range(7)], 2),
    "twice": lambda: BatchData(BatchData(images(), 2), 2),
    "over a stream": lambda: BatchData(DataFromGenerator(lambda: ([i] for i in range(8))), 3, remainder=True),
    "random below": lambda: BatchData(MapData(images(), lambda dp, rng: [rng.random()], rng=True), 3),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_batches_of_each_kind_of_value():
    (batch,) = BatchData(
        DataFromList([[np.eye(2, dtype="f2"), 5], [np.zeros((2, 2), "f2"), 6]], shuffle=False), 2
    )
    assert same(batch, [np.stack([np.eye(2), np.zeros((2, 2))]).astype("f2"), np.array([5, 6], np.int32)])
    (batch,) = BatchData([Sample(1, 2.0), Sample(3, 4.0)], 2)
    assert type(batch) is Sample
    assert same(batch.label, np.array([2, 4], np.float32))
    (batch,) = BatchData([{"a": 1}, {"a": 2}], 2)
    assert same(batch, {"a": np.array([1, 2], np.int32)})
    (batch,) = BatchData([(1, [1, 2]), (3, [4])], 2, use_list=True)
    assert batch == ([1, 3], [[1, 2], [4]])


def objects(*values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False], np.array([True, False])),
        ([1, -2], np.array([1, -2], np.int32)),
        ([-(2**31), 2**31 - 1], np.array([-(2**31), 2**31 - 1], np.int32)),
        ([2.0**24, 1e10], np.array([2.0**24, 1e10], np.float32)),
        ([1e-300, float("-inf")], np.array([0, float("-inf")], np.float32)),
        ([1.5, 2.5], np.array([1.5, 2.5], np.float32)),
        ([1j, 2j], np.array([1j, 2j], np.complex64)),
        ([np.float64(1), np.float64(2)], np.array([1.0, 2.0])),
        ([np.uint8(1), np.uint8(2)], np.array([1, 2], np.uint8)),
        ([np.array(1.0), np.array(2.0)], np.array([1.0, 2.0])),
        ([np.zeros((0, 2)), np.zeros((0, 2))], np.zeros((2, 0, 2))),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([[0.5], (1.5,)], np.array([[0.5], [1.5]])),
        (["ab", "c\0"], objects("ab", "c\0")),
        ([b"ab\xff", b"c\0"], objects(b"ab\xff", b"c\0")),
        (
            [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
            np.array(["2020-01-01", "2021-01-01"], "M8[D]"),
        ),
    ],
)
def test_types(values, expected):
    ((batch,),) = BatchData([[value] for value in values], 2)
    assert same(batch, expected)


def test_aggregate_batch_equals_the_batch_of_a_flow():
    datapoints = [{"a": np.ones(2), "b": 1}, {"a": np.zeros(2), "b": 2}]
    (expected,) = BatchData(datapoints, 2)
    assert same(BatchData.aggregate_batch(datapoints), expected)
    assert BatchData.aggregate_batch([[1], [2.5]], use_list=True) == [[1, 2.5]]
    with pytest.raises(ArgumentError, match="takes at least one datapoint; received none"):
        BatchData.aggregate_batch([])
    with pytest.raises(BatchError, match="datapoint 1 of the pass has float"):
        BatchData.aggregate_batch([[1], [2.5]])


def test_lengths():
    assert len(BatchData(images(10), 3)) == 3
    assert len(BatchData(images(10), 3, remainder=True)) == 4
    assert len(BatchData(images(9), 3, remainder=True)) == 3
    assert list(BatchData(DataFromGenerator(lambda: iter([[1]])), 2)) == []


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", None])
def test_bad_size(size):
    with pytest.raises(ArgumentError, match=r"batch_size is an integer from 1 up; received "):
        BatchData(images(), size)


def test_size_above_the_length():
    with pytest.raises(ValueError, match="batch_size=11 is more than the 10 datapoints of a pass"):
        BatchData(images(10), 11)
    assert len(list(BatchData(images(10), 11, remainder=True))) == 1


def test_columns_are_distinguished_from_datapoints():
    columns = np.zeros((50, 4)), np.zeros(50)
    with pytest.raises(
        ValueError, match=r"2 datapoints of a pass, .* use DataFromArrays\(\[images, labels\]"
    ):
        BatchData(columns, 32)
    with pytest.raises(ValueError, match=r"or remainder=True$"):
        BatchData([[column] for column in columns], 32)
    with pytest.raises(ValueError, match=r"or remainder=True$"):
        BatchData(columns[0], 64)


def mismatch(*datapoints, **arguments):
    """The message for a pass of batches of 2, after one good batch."""
    good = [datapoints[0], datapoints[0]]
    flow = BatchData(DataFromList([*good, *datapoints], shuffle=False), 2, **arguments)
    with pytest.raises(BatchError) as caught:
        list(flow)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            [np.zeros((2, 3))],
            [np.zeros((3, 2))],
            "cannot batch: datapoint 3 of the pass has shape (3, 2) in component 0, and the batch began with "
            "(2, 3); make them alike in a MapData below, or set use_list=True, which keeps lists",
        ),
        # Broadcasting must not hide a difference.
        ({"x": np.zeros((2, 3))}, {"x": np.zeros(3)}, "has shape (3,) in component 'x', and the batch began"),
        ([np.zeros(2, "u1")], [np.zeros(2, "f4")], "has dtype float32 in component 0, and the batch began"),
        ([1], [1.5], "has float 1.5 in component 0, and the batch began with Python int"),
        ([1], [True], "has bool True in component 0, and the batch began with Python int"),
        ([1], [np.int64(1)], "has int64 "),
        (["a"], [b"a"], "has bytes b'a' in component 0, and the batch began with str"),
        ([np.zeros(2)], [1], "has int 1 in component 0; a batch holds arrays, numbers, strings and bytes"),
        ([1, 2], [1], "is a list of 1 components; the batch began with a list of 2 components"),
        ([1], (1,), "is a tuple of 1 components; the batch began with a list of 1 components"),
        ({"a": 1}, {"b": 1}, "with the keys ['b']; the batch began with a dict with the keys ['a']"),
    ],
)  # fmt: skip
def test_datapoints_that_do_not_stack(one, other, message):
    got = mismatch(one, other)
    assert got.startswith("cannot batch: datapoint 3 of the pass ")
    assert message in got


def test_components_that_cannot_be_stacked():
    for value in (None, {"a": 1}, [1, [2, 3]], ["a"], object()):
        with pytest.raises(
            BatchError, match="a batch holds arrays, numbers, strings and bytes; make them alike"
        ):
            list(BatchData([[value], [value]], 2))
    with pytest.raises(BatchError, match="datapoint 0 of the pass is int 7; a datapoint to batch is a list"):
        list(BatchData([7], 1))


def test_the_index_in_the_message_counts_from_the_beginning_of_the_pass():
    flow = BatchData(DataFromList([[1], [1], [1], [1.5]], shuffle=False), 2)
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 1})
    with pytest.raises(BatchError, match="datapoint 3 of the pass"):
        list(flow)


def test_batches_share_no_memory():
    one, two = BatchData(images(4), 2)
    assert not np.shares_memory(one[0], two[0])


def test_items_are_let_go_as_they_arrive():
    alive = []

    most = 0

    def make(dp):
        nonlocal most
        most = max(most, len(alive))
        array = np.zeros(3)
        alive.append(1)
        weakref.finalize(array, alive.pop)
        return [array]

    flow = BatchData(MapData([[i] for i in range(32)], make), 16)
    assert len(list(flow)) == 2
    assert most <= 2


def test_the_memory_of_a_batch_can_come_from_elsewhere():
    pool = [np.zeros((2, 2, 3), np.uint8), np.zeros(2, np.float64)]
    asked = []

    class Elsewhere(BatchAllocator):
        def allocate(self, fields):
            asked.append(fields)
            return pool

    flow = BatchData(DataFromList([[np.ones((2, 3), np.uint8), 5, np.float64(2)]] * 4), 2)
    flow._memory = Elsewhere()
    for batch in flow:
        assert batch[0] is pool[0]
        assert batch[2] is pool[1]
    assert asked == [[((2, 2, 3), np.uint8), ((2,), np.float64)]] * 2


BATCHES = BatchData(DataFromList(list(range(10))), 3)


@pytest.mark.parametrize(
    ("flow", "size"),
    [
        (BATCHES, 3),
        (BatchData(list(range(10)), 3, remainder=True), None),
        (BatchData(list(range(10)), 3, use_list=True), None),
        (PrintData(TestDataSpeed(ShardData(FixedSizeData(RepeatedData(BATCHES, -1), 7), 0, 2))), 3),
        (MultiProcessRunner(BATCHES, 2), 3),
        (MultiThreadRunner(BATCHES, 2), 3),
        (MultiProcessMapAndBatchData(list(range(10)), 2, str, 3), 3),
        (MultiProcessMapAndBatchData(list(range(10)), 2, str, 3, remainder=True), None),
        (MapData(BATCHES, list), None),
        (MultiProcessMapData(BATCHES, 2, list), None),
        (ProxyDataFlow(BATCHES), None),
        (DataFromList([1, 2]), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_flows_with_a_fixed_batch_size(flow, size):
    assert flow.fixed_batch_size == size
