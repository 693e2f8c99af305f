import gc
import json
import logging
import weakref

import numpy as np
import pytest

from towerpack_dataflow import BatchData, DataFlow, DataFromList, MapData, StateError


def test_a_state_holds_the_next_unseen_datapoint():
    flow = DataFromList(range(5), shuffle=False)
    flow.seed(9)
    about = {"flow": {"": {"kind": "DataFromList", "length": 5, "shuffle": False}}}
    assert flow.state_dict() == {"version": 2, "seed": 9, "epoch": 0, "index": 0, **about}
    for number, _ in enumerate(flow):
        assert flow.state_dict() == {"version": 2, "seed": 9, "epoch": 0, "index": number + 1, **about}
    assert flow.state_dict() == {"version": 2, "seed": 9, "epoch": 1, "index": 0, **about}


def test_a_state_taken_at_the_last_datapoint_leaves_an_empty_rest():
    flow = DataFromList(range(3), shuffle=False)
    flow.load_state_dict({"seed": 0, "epoch": 4, "index": 3})
    assert list(flow) == []
    assert flow.state_dict()["epoch"] == 5
    assert list(flow) == [0, 1, 2]


def test_seed_at_the_root_overrides_those_below():
    def make(inner_seed):
        source = DataFromList(range(30))
        source.seed(inner_seed)
        return BatchData(MapData(source, lambda dp: [dp]), 5)

    one, two = make(1), make(2)
    one.seed(7)
    two.seed(7)
    assert _flat(one) == _flat(two)
    assert "seeds" not in one.state_dict()


def test_a_seed_given_below_the_root_counts_and_is_in_the_state():
    source = DataFromList(range(30))
    source.seed(5)
    flow = MapData(source, lambda dp: dp)
    state = flow.state_dict()
    assert state["seeds"] == {"0": 5}
    order = list(flow)
    fresh = MapData(DataFromList(range(30)), lambda dp: dp)
    fresh.load_state_dict(json.loads(json.dumps(state)))
    assert list(fresh) == order


def test_a_seed_is_drawn_logged_and_kept(caplog):
    flow = DataFromList(range(50))
    with caplog.at_level(logging.INFO, logger="towerpack_dataflow"):
        order = list(flow)
        list(flow)
    seed = flow.state_dict()["seed"]
    assert [record.getMessage() for record in caplog.records] == [
        f"DataFromList: drew seed {seed}; seed({seed}) repeats this run"
    ]
    again = DataFromList(range(50))
    again.seed(seed)
    assert list(again) == order
    assert list(DataFromList(range(50))) != list(DataFromList(range(50)))


def test_seed_in_the_middle_of_a_pass_counts_from_the_next_one_on():
    flow = DataFromList(range(40))
    flow.seed(1)
    plain = list(flow)
    flow = DataFromList(range(40))
    flow.seed(1)
    got = []
    for datapoint in flow:
        flow.seed(2)
        got.append(datapoint)
    assert got == plain
    other = DataFromList(range(40))
    other.seed(2)
    list(other)
    assert list(flow) == list(other)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True])
def test_bad_seed(seed):
    with pytest.raises(ValueError, match=r"a seed is an integer from 0 up; received "):
        DataFromList([1]).seed(seed)


def test_numpy_seed_is_json():
    flow = DataFromList([1])
    flow.seed(np.int64(3))
    assert json.loads(json.dumps(flow.state_dict()))["seed"] == 3


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "a state is the dict that state_dict.. returns; received list"),
        ({"seed": 1, "epoch": 0}, "'index' in"),
        ({"seed": 1, "epoch": -1, "index": 0}, "'epoch' in"),
        ({"seed": 1, "epoch": 0, "index": 0.5}, "'index' in"),
        ({"seed": 1, "epoch": 0, "index": 0, "more": 1}, "'more' in"),
        (
            {"version": 99, "seed": 1, "epoch": 0, "index": 0},
            "version 99, and this release reads version 2 and those before",
        ),
    ],
)
def test_bad_state(state, message):
    with pytest.raises(StateError, match=message):
        DataFromList([1]).load_state_dict(state)


def test_a_state_without_a_number_has_the_first_format():
    flow = DataFromList([[i] for i in range(9)])
    list(flow)
    state = flow.state_dict()
    assert state.pop("version") == 2
    resumed = DataFromList([[i] for i in range(9)])
    resumed.load_state_dict(state)
    assert list(resumed) == list(flow)


@pytest.mark.parametrize("number", [0, 3, "1", None, True])
def test_a_state_of_an_unknown_format_names_the_release_that_reads_it(number):
    message = (
        rf"version {number!r}, and .* reads version 2 .*; use the release .* that wrote it, or a later one"
    )
    with pytest.raises(StateError, match=message):
        DataFromList([1]).load_state_dict({"version": number, "seed": 1, "epoch": 0, "index": 0})


def test_state_of_other_data():
    flow = DataFromList([1, 2, 3])
    flow.load_state_dict({"seed": 1, "epoch": 0, "index": 4})
    with pytest.raises(StateError, match="4 datapoints of this epoch were seen, and DataFromList has 3"):
        next(iter(flow))


def _flat(flow):
    return [batch[0].tolist() for batch in flow]


class Unread(list):
    """A list that is too long to be walked through."""

    def __iter__(self):
        raise AssertionError("walked through")


def test_a_state_does_not_cost_a_walk_through_a_flow_s_own_list():
    class Paths(DataFlow):
        def __init__(self, paths):
            self.paths = paths

        def __len__(self):
            return len(self.paths)

        def datapoint(self, epoch, index):
            return [self.paths[index]]

    for flow in (Paths(Unread(["a"] * 2000)), DataFromList(Unread("abc"))):
        next(iter(flow))
        assert flow.state_dict()["index"] == 1


def test_a_state_makes_no_circle_of_references():
    """A flow that is let go of ends its workers at once, and not when the garbage collector comes by."""
    flow = MapData(DataFromList([[1], [2]]), list)
    next(iter(flow))
    flow.load_state_dict(flow.state_dict())
    flow.state_dict()
    gone = weakref.ref(flow)
    gc.disable()
    try:
        del flow
        assert gone() is None
    finally:
        gc.enable()
