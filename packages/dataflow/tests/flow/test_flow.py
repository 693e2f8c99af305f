import json
import logging

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFlowError,
    DataFromGenerator,
    DataFromList,
    FlowDefinitionError,
    MapData,
    NotAddressableError,
    ProxyDataFlow,
    RepeatedData,
    RNGDataFlow,
    StateError,
    UnknownLengthError,
)
from towerpack_dataflow.testing import check_dataflow


class Letters(DataFlow):
    """A stream of the simplest kind."""

    def __iter__(self):
        for letter in "abcde":
            yield [letter]


class Noise(RNGDataFlow):
    """A random stream that knows its length."""

    def __len__(self):
        return 6

    def __iter__(self):
        for _ in range(6):
            yield [self.rng.integers(1000)]


class Squares(DataFlow):
    """An addressable flow with random numbers."""

    def __init__(self, size=7):
        self.size = size

    def __len__(self):
        return self.size

    def datapoint(self, epoch, index):
        return [index**2, int(epoch), epoch.rng(index).random()]


class Tagged(ProxyDataFlow):
    """A proxy written as in Tensorpack."""

    def __iter__(self):
        for datapoint in self.ds:
            yield ["tag", *datapoint]


class TwoChildren(DataFlow):
    """Iterates one flow twice and another once."""

    def __init__(self):
        self.flows = [DataFromList([[1], [2], [3]]), Noise()]

    def __iter__(self):
        yield from self.flows[0]
        yield from self.flows[1]
        yield from self.flows[0]


class TaggedTwice(Tagged):
    """Calls super().__iter__() of a user's class."""

    def __iter__(self):
        for datapoint in super().__iter__():
            yield ["again", *datapoint]


class MapAndMore(MapData):
    """Calls super().__iter__() of one of ours."""

    def __len__(self):
        return super().__len__() + 1

    def __iter__(self):
        yield ["first"]
        yield from super().__iter__()


USER_FLOWS = {
    "stream": Letters,
    "random stream": Noise,
    "addressable": Squares,
    "proxy": lambda: Tagged(DataFromList([[i] for i in range(5)])),
    "proxy of a proxy": lambda: Tagged(Tagged(Noise())),
    "super": lambda: TaggedTwice(DataFromList([[i] for i in range(5)])),
    "super of ours": lambda: MapAndMore(DataFromList([[i] for i in range(5)]), list),
    "two children": TwoChildren,
    "under operators": lambda: BatchData(RepeatedData(Tagged(Noise()), 3), 4, use_list=True),
    "plain proxy": lambda: ProxyDataFlow(Squares()),
}


@pytest.mark.parametrize("name", USER_FLOWS)
def test_flows_of_users_conform(name):
    check_dataflow(USER_FLOWS[name]())


def test_a_subclass_needs_no_init_and_no_length():
    flow = Letters()
    assert [letter for (letter,) in flow] == list("abcde")
    assert flow.addressable is False
    with pytest.raises(TypeError, match=r"does not know its length.*FixedSizeData"):
        len(flow)
    with pytest.raises(UnknownLengthError):
        len(MapData(flow, list))


def test_addressable_subclass():
    flow = Squares()
    flow.seed(3)
    assert flow.addressable
    assert flow.datapoint(2, 3)[:2] == [9, 2]
    assert flow.datapoint(2, 3) == [list(flow), list(flow), list(flow)][2][3]


def test_overriding_nothing_or_too_much_is_an_error():
    with pytest.raises(FlowDefinitionError, match="override __iter__, or __len__ and datapoint"):
        list(DataFlow())
    with pytest.raises(FlowDefinitionError, match="Both defines both __iter__ and datapoint"):

        class Both(DataFlow):
            def __iter__(self):
                yield 1

            def datapoint(self, epoch, index):
                return 1


def test_iter_starts_the_next_epoch_however_far_the_last_was_read():
    flow = DataFromList(range(20))
    flow.seed(1)
    first, second, third = list(flow), list(flow), list(flow)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(20))
    flow = DataFromList(range(20))
    flow.seed(1)
    next(iter(flow))
    for number, datapoint in enumerate(flow):
        assert datapoint == second[number]
        if number == 10:
            break
    assert list(flow) == third


def test_state_says_the_next_unseen_datapoint():
    flow = DataFromList(range(5), shuffle=False)
    flow.seed(9)
    assert flow.state_dict() == {"version": 1, "seed": 9, "epoch": 0, "index": 0}
    for number, _ in enumerate(flow):
        assert flow.state_dict() == {"version": 1, "seed": 9, "epoch": 0, "index": number + 1}
    assert flow.state_dict() == {"version": 1, "seed": 9, "epoch": 1, "index": 0}


def test_a_state_taken_at_the_last_datapoint_leaves_an_empty_rest():
    flow = DataFromList(range(3), shuffle=False)
    flow.load_state_dict({"seed": 0, "epoch": 4, "index": 3})
    assert list(flow) == []
    assert flow.state_dict()["epoch"] == 5
    assert list(flow) == [0, 1, 2]


def test_two_iterators_of_an_addressable_flow():
    flow = MapData(DataFromList(range(10)), lambda dp: dp * 2)
    flow.seed(0)
    passes = [list(flow), list(flow)]
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 0})
    one, two = iter(flow), iter(flow)
    pairs = list(zip(one, two))
    assert [list(column) for column in zip(*pairs)] == passes
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 0})
    one = iter(flow)
    next(one)
    two = iter(flow)
    next(one)
    assert (flow.state_dict()["epoch"], flow.state_dict()["index"]) == (1, 0)


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


def test_places_in_the_tree_have_different_random_numbers():
    class Pair(DataFlow):
        def __init__(self):
            self.one, self.two = DataFromList(range(50)), DataFromList(range(50))

        def __iter__(self):
            yield from zip(self.one, self.two)

    flow = Pair()
    flow.seed(0)
    one, two = zip(*flow)
    assert one != two
    assert sorted(one) == sorted(two)


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
        ({"version": 99, "seed": 1, "epoch": 0, "index": 0}, "version 99, and this release reads version 1"),
    ],
)
def test_bad_state(state, message):
    with pytest.raises(StateError, match=message):
        DataFromList([1]).load_state_dict(state)


def test_a_state_without_a_number_has_the_first_format():
    flow = DataFromList([[i] for i in range(9)])
    list(flow)
    state = flow.state_dict()
    assert state.pop("version") == 1
    resumed = DataFromList([[i] for i in range(9)])
    resumed.load_state_dict(state)
    assert list(resumed) == list(flow)


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_a_state_of_an_unknown_format_says_which_release_reads_it(number):
    message = rf"version {number!r}, and .* reads version 1; use the release .* that wrote it, or a later one"
    with pytest.raises(StateError, match=message):
        DataFromList([1]).load_state_dict({"version": number, "seed": 1, "epoch": 0, "index": 0})


def test_state_of_other_data():
    flow = DataFromList([1, 2, 3])
    flow.load_state_dict({"seed": 1, "epoch": 0, "index": 4})
    with pytest.raises(StateError, match="4 datapoints of this epoch were seen, and DataFromList has 3"):
        next(iter(flow))


def test_random_access_errors():
    flow = DataFromList([1, 2, 3])
    with pytest.raises(IndexError, match="datapoint 3 of DataFromList: a pass has 3 datapoints"):
        flow.datapoint(0, 3)
    with pytest.raises(NotAddressableError, match="Letters is a stream"):
        Letters().datapoint(0, 0)


def test_reset_state_is_called_once_when_nobody_has_and_reaches_children():
    class Counting(Letters):
        def __init__(self):
            self.calls = 0

        def reset_state(self):
            super().reset_state()
            self.calls += 1

    inner = Counting()
    flow = MapData(inner, list)
    list(flow), list(flow)
    assert inner.calls == 1
    flow.reset_state()
    assert inner.calls == 2
    copied = cloudpickle.loads(cloudpickle.dumps(flow))
    list(copied)
    assert copied.ds.calls == 3


def test_a_proxy_leaves_its_child_where_it_was():
    child = DataFromList(range(5))
    child.seed(0)
    next(iter(child))
    before = child.state_dict()
    list(MapData(child, lambda dp: dp))
    list(Tagged(MapData(child, lambda dp: [dp])))
    assert child.state_dict() == before


def test_errors_keep_their_type_and_say_where():
    def broken(dp):
        if dp[0] == 3:
            raise KeyError("mine")
        return dp

    flow = BatchData(MapData(MapData(DataFromList([[i] for i in range(6)], shuffle=False), list), broken), 2)
    with pytest.raises(KeyError, match="mine") as caught:
        list(flow)
    (note,) = caught.value.__notes__
    assert note.startswith("in the flow BatchData(2) > MapData(")
    assert note.endswith("broken), while making datapoint 1 of epoch 0")


def test_errors_in_the_lower_of_two_maps_name_it():
    def broken(dp):
        raise OSError("lower")

    def fine(dp):
        return dp

    with pytest.raises(OSError, match="lower") as caught:
        list(MapData(MapData([[1]], broken), fine))
    assert caught.value.__notes__[0].endswith("broken), while making datapoint 0 of epoch 0")


@pytest.mark.parametrize("where", ["iter", "generator", "datapoint", "list"])
def test_errors_in_sources_say_where(where):
    def generator():
        yield [0]
        raise OSError("source")

    class Broken(DataFlow):
        def __iter__(self):
            return generator()

    class BrokenOne(DataFlow):
        def __len__(self):
            return 2

        def datapoint(self, epoch, index):
            return list(generator())[index]

    class BrokenList:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return list(generator())[index]

    flow = {
        "iter": Broken(),
        "generator": DataFromGenerator(generator),
        "datapoint": BrokenOne(),
        "list": DataFromList(BrokenList()),
    }[where]
    with pytest.raises(OSError, match="source") as caught:
        list(MapData(flow, list))
    index = 1 if where in {"iter", "generator"} else 0
    assert f"> {flow._name()}, while making datapoint {index} of epoch 0" in caught.value.__notes__[0]


def test_an_exception_that_takes_no_notes_still_comes_through():
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    def broken(dp):
        raise Frozen

    with pytest.raises(Frozen):
        list(MapData([[1]], broken))


def test_after_an_error_the_state_is_before_the_failed_datapoint():
    def broken(dp):
        if dp == 2:
            raise ValueError
        return dp

    flow = MapData(range(5), broken)
    with pytest.raises(ValueError):
        list(flow)
    assert flow.state_dict()["index"] == 2


def test_all_errors_have_one_root():
    for error in (FlowDefinitionError, NotAddressableError, StateError, UnknownLengthError):
        assert issubclass(error, DataFlowError)


def _flat(flow):
    return [batch[0].tolist() for batch in flow]


class Unread(list):
    """A long list that nobody has a reason to walk through."""

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

    for flow in (Paths(Unread("abc")), DataFromList(Unread("abc"))):
        next(iter(flow))
        assert flow.state_dict()["index"] == 1


def test_a_subclass_of_an_operator_may_hold_more_flows():
    class Interleaved(BatchData):
        def __init__(self, ds, other):
            super().__init__(ds, 2)
            self.other = other

        def __iter__(self):
            for one, two in zip(super().__iter__(), self.other):
                yield [one, two]

    def flow():
        return Interleaved(DataFromList([[i] for i in range(8)]), DataFromList([[i] for i in range(4)]))

    one, two = flow(), flow()
    one.seed(1)
    two.seed(1)
    assert len(one._children()) == 2
    assert str(list(one)) == str(list(two))
    one.other.seed(7)
    assert one.state_dict()["seeds"] == {"1": 7}
