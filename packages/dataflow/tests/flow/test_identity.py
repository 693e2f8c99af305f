"""A state of a user's flow belongs to the settings of that flow."""

import pytest

from towerpack_dataflow import BatchData, DataFlow, DataFromList, MapData, ProxyDataFlow, StateError
from towerpack_dataflow.testing import ConformanceError, check_dataflow


class EveryNth(ProxyDataFlow):
    """Keeps datapoints 0, n, 2 n, …"""

    def __init__(self, ds, n):
        super().__init__(ds)
        self.n = n

    def __len__(self):
        return -(-len(self.ds) // self.n)

    def datapoint(self, epoch, index):
        return self.ds.datapoint(epoch, index * self.n)


class Scaled(DataFlow):
    """An old flow: a generator, and no call of the base class."""

    def __init__(self, scale, path="here", keep=True):
        self._scale, self.path, self.keep = scale, path, keep

    def __iter__(self):
        for number in range(10):
            yield [number * self._scale]


def numbers():
    return DataFromList([[number] for number in range(24)], shuffle=False)


def state_after(flow, count=2):
    iterator = iter(flow)
    for _ in range(count):
        next(iterator)
    return flow.state_dict()


PAIRS = {
    "an operator": (lambda: EveryNth(numbers(), 3), lambda: EveryNth(numbers(), 4)),
    "below others": (
        lambda: BatchData(EveryNth(MapData(numbers(), list), 2), 2),
        lambda: BatchData(EveryNth(MapData(numbers(), list), 3), 2),
    ),
    "a float": (lambda: Scaled(0.5), lambda: Scaled(0.25)),
    "a truth value": (lambda: Scaled(0.5), lambda: Scaled(0.5, keep=False)),
}


@pytest.mark.parametrize(("make", "other"), PAIRS.values(), ids=PAIRS)
def test_a_flow_with_other_settings_refuses_a_state(make, other):
    state = state_after(make())
    make().load_state_dict(state)
    with pytest.raises(StateError, match=r"n of EveryNth|scale of Scaled|keep of Scaled"):
        other().load_state_dict(state)


def test_the_place_of_files_may_change():
    Scaled(0.5, "elsewhere").load_state_dict(state_after(Scaled(0.5)))


def test_states_of_earlier_releases_load():
    state = state_after(EveryNth(numbers(), 3))
    for facts in state["flow"].values():
        facts.pop("n", None)
    EveryNth(numbers(), 4).load_state_dict(state)


def test_an_override_decides():
    class Words(Scaled):
        def identity(self):
            return {"path": self.path}

    state = state_after(Words(0.5))
    Words(0.25).load_state_dict(state)
    with pytest.raises(StateError, match="path of Words"):
        Words(0.5, "elsewhere").load_state_dict(state)


def test_the_check_of_flows_asks_for_a_lasting_identity():
    class Moving(Scaled):
        def __iter__(self):
            for datapoint in super().__iter__():
                self._scale += 0
                yield datapoint
            self.keep = False

    class Odd(Scaled):
        def identity(self):
            return {"scale": 0.5}

    check_dataflow(EveryNth(numbers(), 3))
    with pytest.raises(ConformanceError, match=r"identity\(\) was .* and is .* after a pass"):
        check_dataflow(Moving(1))
    with pytest.raises(ConformanceError, match=r"identity\(\) returns integers"):
        check_dataflow(Odd(1))
