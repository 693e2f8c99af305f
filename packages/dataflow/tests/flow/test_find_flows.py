"""Flows anywhere in an attribute have a place in the tree: seeds, epochs and states reach them."""

import dataclasses
import functools
import json
from collections import OrderedDict, deque, namedtuple
from types import MappingProxyType, SimpleNamespace

import cloudpickle
import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    FlowDefinitionError,
    MapData,
    ProxyDataFlow,
    RNGDataFlow,
    ShardData,
)
from towerpack_dataflow.testing import check_dataflow

Pair = namedtuple("Pair", "name flow")


@dataclasses.dataclass
class Part:
    name: str
    flow: DataFlow


@dataclasses.dataclass(slots=True)
class SlottedPart:
    flow: DataFlow


def shuffled():
    return DataFromList(list(range(12)))


def read(flow):
    return list(flow)


class Holder(DataFlow):
    """Holds a flow somewhere, and reads it."""

    def __init__(self, held, reach):
        self.held = held
        self.reach = reach

    def __iter__(self):
        for number in self.reach(self.held):
            yield [number]


class Slotted(DataFlow):
    """Holds a flow in a slot."""

    __slots__ = ("below",)

    def __init__(self, below):
        self.below = below

    def __iter__(self):
        for number in self.below:
            yield [number]


HELD = {
    "dict": (lambda flow: {"one": flow}, lambda held: held["one"]),
    "ordered dict": (lambda flow: OrderedDict(one=flow), lambda held: held["one"]),
    "mapping proxy": (lambda flow: MappingProxyType({"one": flow}), lambda held: held["one"]),
    "far in a list": (lambda flow: [*range(8), flow], lambda held: held[8]),
    "far in a tuple": (lambda flow: (*range(40), flow), lambda held: held[40]),
    "list in a list": (lambda flow: [[1, flow]], lambda held: held[0][1]),
    "dict in a list": (lambda flow: [{"x": (flow,)}], lambda held: held[0]["x"][0]),
    "named tuple": (lambda flow: Pair("a", flow), lambda held: held.flow),
    "deque": (lambda flow: deque([flow]), lambda held: held[0]),
    "partial": (lambda flow: functools.partial(read, flow), lambda held: held()),
    "method": (lambda flow: flow.__iter__, lambda held: held()),
    "dataclass": (lambda flow: Part("a", flow), lambda held: held.flow),
    "dataclass with slots": (lambda flow: [SlottedPart(flow)], lambda held: held[0].flow),
    "namespace": (lambda flow: SimpleNamespace(flow=flow), lambda held: held.flow),
}


@pytest.mark.parametrize("held", HELD)
def test_a_flow_in_a_container_has_a_place(held):
    put, reach = HELD[held]
    source = shuffled()
    source.seed(5)
    flow = Holder(put(source), reach)
    state = flow.state_dict()
    assert state["seeds"] == {"0": 5}
    flow.seed(7)
    assert source._seed is None
    expected = MapData(shuffled(), lambda number: [number])
    expected.seed(7)
    assert [list(flow), list(flow)] == [list(expected), list(expected)]


@pytest.mark.parametrize("held", [name for name in HELD if name not in {"method", "mapping proxy"}])
def test_a_flow_over_one_in_a_container_conforms(held):
    put, reach = HELD[held]
    check_dataflow(Holder(put(shuffled()), reach), positions=4)


def test_a_flow_in_a_slot_has_a_place_and_is_copied():
    flow = Slotted(shuffled())
    flow.seed(3)
    expected = MapData(shuffled(), lambda number: [number])
    expected.seed(3)
    assert list(cloudpickle.loads(cloudpickle.dumps(flow))) == list(expected)
    check_dataflow(Slotted(shuffled()))


def test_a_flow_in_a_set_is_refused():
    flow = Holder({shuffled()}, lambda held: next(iter(held)))
    for use in (lambda: next(iter(flow)), flow.state_dict, lambda: flow.seed(1)):
        with pytest.raises(
            FlowDefinitionError, match=r"a set has no order, .* hold them in a list, tuple or"
        ):
            use()


def test_deeper_flows_come_after_direct_ones():
    one, two, three, four = (DataFromList([number]) for number in range(4))

    class Many(DataFlow):
        def __init__(self):
            self.by_name = {"a": one}
            self.parts = [two, {"b": three}]
            self.ds = four

        def __iter__(self):
            yield from self.ds

    assert list(Many().children()) == [two, four, one, three]


def test_a_reference_to_the_holder_itself_is_not_a_child():
    class Knot(DataFlow):
        def __init__(self):
            self.parts = {"self": self, "list": []}
            self.parts["list"].append(self.parts)

        def __iter__(self):
            yield [1]

    assert Knot().children() == ()
    assert list(Knot()) == [[1]]


def test_two_flows_that_hold_each_other_are_refused():
    one, two = (Holder(None, iter) for _ in range(2))
    one.held, two.held = two, one
    for use in (one.state_dict, lambda: one.seed(1), lambda: list(one)):
        with pytest.raises(FlowDefinitionError, match="Holder holds itself"):
            use()


# Flows that the search does not reach: their passes belong to the pass that they are begun in.


class Hider:
    """An object that the search does not look into."""

    def __init__(self, flow):
        self._flow = flow

    def __call__(self):
        return iter(self._flow)


class Noise(RNGDataFlow):
    def __iter__(self):
        for _ in range(3):
            yield [int(self.rng.integers(1000))]


class Unfound(DataFlow):
    """Reads flows that it does not hold."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        for flow in self.make():
            yield from flow


class UnfoundAddressable(DataFlow):
    """Reads a flow that it does not hold for each datapoint, and one datapoint of another."""

    def __init__(self, hider, other):
        self.hider = hider
        self.other = other

    def __len__(self):
        return 5

    def datapoint(self, epoch, index):
        return [*self.hider(), *self.hider(), self.other.datapoint(int(epoch), index)]


class Local(ProxyDataFlow):
    """Builds an operator on the spot."""

    def __iter__(self):
        yield from BatchData(MapData(self.ds, lambda number: [number]), 4)

    def __len__(self):
        return len(self.ds) // 4


def calls(hider):
    return lambda: [hider()]


HIDDEN = {
    "closure": lambda flow: lambda: [flow],
    "built on the spot": lambda flow: lambda: [Noise(), shuffled()],
    "object": lambda flow: calls(Hider(flow)),
    "long list": lambda flow: lambda many=[*range(2000), flow]: many[2000:],
    "generator": lambda flow: lambda: [DataFromGenerator(lambda: iter(flow))],
}


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("below", [shuffled, Noise, lambda: FixedSizeData(shuffled(), 7)])
def test_a_flow_out_of_sight_keeps_passes_a_function_of_seed_and_epoch(hidden, below):
    make = HIDDEN[hidden]
    flow = Unfound(make(below()))
    check_dataflow(flow, positions=3)
    flow.seed(1)
    one, two = list(flow), list(flow)
    assert one != two, "epochs differ"


def test_a_generator_s_passes_over_a_flow_belong_to_its_own():
    check_dataflow(DataFromGenerator(lambda: iter(shuffled())))
    check_dataflow(DataFromGenerator(lambda: iter(Noise())))


def test_an_operator_built_on_the_spot_belongs_to_the_pass():
    check_dataflow(Local(shuffled()))


def test_a_datapoint_may_use_a_whole_pass():
    flow = UnfoundAddressable(Hider(Noise()), shuffled())
    check_dataflow(flow)
    flow.seed(1)
    made = list(flow)
    assert len({json.dumps(datapoint[:6]) for datapoint in made}) == 5
    assert made[0][:3] != made[0][3:6], "two passes for one datapoint differ"
    assert sorted(datapoint[6] for datapoint in made) != [made[0][6]] * 5


def test_the_seed_of_a_flow_out_of_sight_counts_unless_it_has_drawn_it():
    def first(prepare):
        hidden = shuffled()
        prepare(hidden)
        flow = Unfound(lambda: [hidden])
        flow.seed(1)
        return list(flow)

    assert first(list) == first(lambda flow: None)
    assert first(lambda flow: flow.seed(2)) == first(lambda flow: flow.seed(2)) != first(list)


def test_a_shard_built_on_the_spot_cuts_the_order_of_the_pass():
    def whole(count):
        passes = []
        for index in range(count):
            flow = Unfound(lambda index=index: [ShardData(shuffled(), index, count)])
            flow.seed(4)
            passes.append([list(flow), list(flow)])
        return passes

    one, two = whole(2)
    assert sorted(one[0] + two[0]) == sorted(one[1] + two[1]) == list(range(12))
    assert one[0] != one[1]


def test_attributes_may_be_set_meanwhile():
    """Threads that begin passes of one flow at once do so, where no global lock is between them."""

    class Watched:
        def __init__(self, flow):
            self.flow = flow

        @property
        def __class__(self):  # is asked for while the flow's attributes are looked at
            self.flow.another = 1
            return Watched

    class Holder(ProxyDataFlow):
        def __iter__(self):
            return iter(self.ds)

    flow = Holder(shuffled())
    flow.watched, flow.below = Watched(flow), shuffled()
    assert flow.children() == (flow.ds, flow.below) and flow.another == 1
