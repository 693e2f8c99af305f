"""A state is checked against the flow that loads it, and a rejected one changes nothing."""

import copy
import json
import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    PrintData,
    RepeatedData,
    ShardData,
    StateError,
)


class Rows(DataFlow):
    def __init__(self, count):
        self.size = count

    def __len__(self):
        return self.size

    def datapoint(self, epoch, index):
        return [index]


class Opened(DataFlow):
    """Knows its length when it was reset."""

    def reset_state(self):
        super().reset_state()
        self.rows = [[1], [2]]

    def __len__(self):
        return len(self.rows)

    def datapoint(self, epoch, index):
        return self.rows[index]


def same(number):
    return number


def boxed(count):
    return [[number] for number in range(count)]


def taken_at(flow, index=2):
    flow.seed(1)
    list(islice(iter(flow), index))
    return json.loads(json.dumps(flow.state_dict()))


OTHER = {
    "length": (
        lambda: DataFromList(range(9)),
        lambda: DataFromList(range(8)),
        "length of DataFromList",
        9,
        8,
    ),
    "order": (
        lambda: DataFromList(range(9)),
        lambda: DataFromList(range(9), shuffle=False),
        "shuffle of DataFromList",
        True,
        False,
    ),
    "arrays": (
        lambda: DataFromArrays([np.zeros(9)]),
        lambda: DataFromArrays([np.zeros(7)]),
        "length of DataFromArrays",
        9,
        7,
    ),
    "iterable": (
        lambda: DataFromIterable([1, 2, 3]),
        lambda: DataFromIterable([1, 2]),
        "length of DataFromIterable",
        3,
        2,
    ),
    "user's": (lambda: Rows(5), lambda: Rows(4), "length of Rows", 5, 4),
    "batch": (
        lambda: BatchData(boxed(9), 3),
        lambda: BatchData(boxed(9), 2),
        "batch_size of BatchData",
        3,
        2,
    ),
    "remainder": (
        lambda: BatchData(boxed(9), 3),
        lambda: BatchData(boxed(9), 3, remainder=True),
        "remainder of BatchData",
        False,
        True,
    ),
    "repetition": (
        lambda: RepeatedData(range(9), 3),
        lambda: RepeatedData(range(9), 2),
        "num of RepeatedData",
        3,
        2,
    ),
    "size": (
        lambda: FixedSizeData(range(9), 3),
        lambda: FixedSizeData(range(9), 4),
        "size of FixedSizeData",
        3,
        4,
    ),
    "two of a kind": (
        lambda: BatchData(BatchData(boxed(30), 3), 2),
        lambda: BatchData(BatchData(boxed(30), 4), 2),
        "batch_size of BatchData at 0",
        3,
        4,
    ),
    "shape": (
        lambda: BatchData(MapData(boxed(9), same), 2),
        lambda: BatchData(boxed(9), 2),
        "flows",
        "BatchData(MapData(DataFromList))",
        "BatchData(DataFromList)",
    ),
    "kind": (
        lambda: MapData(DataFromGenerator(lambda: iter("abc")), same),
        lambda: MapData(range(3), same),
        "flows",
        "MapData(DataFromGenerator)",
        "MapData(DataFromList)",
    ),
    "hosts": (
        lambda: BatchData(ShardData(boxed(60), 0, 2), 6),
        lambda: BatchData(ShardData(boxed(60), 0, 3), 6),
        "batch_size of BatchData",
        12,
        18,
    ),
}


@pytest.mark.parametrize("what", OTHER)
def test_the_state_of_another_flow_is_rejected_with_the_differences(what):
    build, build_other, name, was, now = OTHER[what]
    state = taken_at(build())
    flow = build_other()
    flow.seed(8)
    list(islice(iter(flow), 1))
    before = flow.state_dict()
    with pytest.raises(StateError) as caught:
        flow.load_state_dict(state)
    assert caught.value.differences == {name: (was, now)}
    assert f"{name} was {was} and is {now}" in str(caught.value)
    assert flow.state_dict() == before
    del state["flow"]
    flow.load_state_dict(state)  # as one likes
    assert flow.state_dict()["index"] == state["index"]


def test_the_error_survives_pickling():
    flow = DataFromList(range(9))
    with pytest.raises(StateError) as caught:
        flow.load_state_dict(taken_at(DataFromList(range(8))))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.differences == {"length of DataFromList": (8, 9)}
    assert str(copied) == str(caught.value)


def shuffled():
    return DataFromList(range(60))


@pytest.mark.parametrize(
    ("build", "build_other"),
    [
        (lambda: MultiProcessRunner(MapData(shuffled(), same), 2), lambda: MapData(shuffled(), same)),
        (lambda: MultiProcessMapData(shuffled(), 2, same), lambda: MapData(shuffled(), same)),
        (lambda: MultiThreadMapData(shuffled(), 1, same), lambda: MultiThreadMapData(shuffled(), 3, same)),
        (lambda: PrintData(shuffled()), shuffled),
        (
            lambda: BatchData(ShardData(shuffled(), 1, 2), 6),
            lambda: BatchData(MapData(ShardData(shuffled(), 0, 3), same).ds, 4),
        ),
        (lambda: MapData(shuffled(), same), lambda: MapData(shuffled(), str, drops=True)),
    ],
)
def test_runners_counters_and_shards_are_not_part_of_the_identity(build, build_other):
    one, two = build(), build_other()
    for flow in (one, two):
        flow.seed(1)
    one.load_state_dict(two.state_dict())
    two.load_state_dict(one.state_dict())


def test_a_length_that_is_known_after_reset_only_is_compared_when_both_know_it():
    flow = Opened()
    early = flow.state_dict()
    assert early["flow"] == {"": {"kind": "Opened"}}
    list(flow)
    late = flow.state_dict()
    assert late["flow"] == {"": {"kind": "Opened", "length": 2}}
    for state in (early, late):
        Opened().load_state_dict(state)
        flow.load_state_dict(state)


broken = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, -1),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-2, 2), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(-2, -1), min_size=1, max_size=2),
)


@given(
    key=st.sampled_from(["seed", "epoch", "index", "version", "seeds", "marks", "flow", "other", 5, None]),
    value=broken,
)
def test_a_malformed_state_is_a_state_error_and_changes_nothing(key, value):
    source = DataFromList(boxed(60))
    source.seed(2)
    flow = BatchData(MapData(source, same, drops=True), 2)
    state = {**taken_at(flow), key: value}
    flow.seed(5)
    source.seed(6)
    list(islice(iter(flow), 3))
    before = copy.deepcopy(flow.state_dict())
    if value == {} and key in {"seeds", "marks"}:
        flow.load_state_dict(state)
        return
    with pytest.raises(StateError):
        flow.load_state_dict(state)
    assert flow.state_dict() == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": {"0": "a"}}, "wrong or unknown here: 'seeds'"),
        ({"seeds": {"0.7": 3}}, r"seeds for flows that .* has not, at \['0.7'\]"),
        ({"marks": {"0": [1, "a"]}}, "wrong or unknown here: 'marks'"),
        ({"marks": {"up": [1]}}, "wrong or unknown here: 'marks'"),
        ({"marks": [1]}, "wrong or unknown here: 'marks'"),
        ({"flow": {"": {}}}, "wrong or unknown here: 'flow'"),
        ({"flow": "DataFromList"}, "wrong or unknown here: 'flow'"),
        ({5: 5, "a": 1}, "wrong or unknown here: 'a', 5"),
        ({"index": 2**80, "epoch": True}, "wrong or unknown here: 'epoch'"),
    ],
)
def test_an_invalid_part_of_a_state_is_named(more, message):
    with pytest.raises(StateError, match=message):
        MapData(shuffled(), same).load_state_dict({"seed": 1, "epoch": 0, "index": 0, **more})


def test_a_long_state_is_cut_in_the_message():
    with pytest.raises(StateError) as caught:
        shuffled().load_state_dict({"epoch": "x" * 10_000})
    assert len(str(caught.value)) < 1000
