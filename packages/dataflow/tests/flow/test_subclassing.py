import cloudpickle
import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromList,
    FlowDefinitionError,
    MapData,
    NotAddressableError,
    ProxyDataFlow,
    RepeatedData,
    RNGDataFlow,
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

        Both()


def test_random_access_errors():
    flow = DataFromList([1, 2, 3])
    with pytest.raises(IndexError, match="datapoint 3 of DataFromList: a pass has 3 datapoints"):
        flow.datapoint(0, 3)
    with pytest.raises(NotAddressableError, match="Letters is a stream"):
        Letters().datapoint(0, 0)


def test_reset_state_is_called_once_automatically_and_reacheschildren():
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
    assert len(one.children()) == 2
    assert str(list(one)) == str(list(two))
    one.other.seed(7)
    assert one.state_dict()["seeds"] == {"1": 7}
