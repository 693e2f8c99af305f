from collections import namedtuple

import pytest

from towerpack_dataflow import ArgumentTypeError, ComponentError, DataFromList, MapDataComponent
from towerpack_dataflow.testing import check_dataflow

Point = namedtuple("Point", "x y")


def source():
    return DataFromList([[i] for i in range(12)])


FLOWS = {
    "component": lambda: MapDataComponent(source(), lambda x: x + 1),
    "component of a dict": lambda: MapDataComponent([{"a": 1}, {"a": 2}], lambda x: -x, "a"),
    "random component": lambda: MapDataComponent(source(), lambda x, rng: x + rng.random(), rng=True),
    "component drops": lambda: MapDataComponent(source(), lambda x: x if x % 3 else None, drops=True),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_func_must_be_callable():
    with pytest.raises(
        ArgumentTypeError, match="MapDataComponent takes a function of a datapoint; received str"
    ):
        MapDataComponent([[1]], "f")


def test_a_component_keeps_the_type_of_the_datapoint():
    assert list(MapDataComponent([(1, 2)], str, 1)) == [(1, "2")]
    (point,) = MapDataComponent([Point(1, 2)], str, 0)
    assert point == Point("1", 2)
    assert type(point) is Point


@pytest.mark.parametrize(
    ("datapoint", "index", "message"),
    [
        ([1], 3, "no component 3 in this datapoint, which is a list of 1"),
        ({"a": 1}, "b", r"no component 'b' in this datapoint, which is a dict with the keys \['a'\]"),
        (7, 0, "no component 0 in this datapoint, which is of type int"),
    ],
)
def test_missing_component(datapoint, index, message):
    with pytest.raises(ComponentError, match=message) as caught:
        list(MapDataComponent([datapoint], str, index))
    assert isinstance(caught.value, LookupError)
