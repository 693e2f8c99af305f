from collections import namedtuple

import pytest

from towerpack_dataflow import ArgumentTypeError, ComponentError, DataFromList, SelectComponent
from towerpack_dataflow.testing import check_dataflow

Point = namedtuple("Point", "x y")


def test_conformance():
    check_dataflow(SelectComponent(DataFromList([[i, -i, str(i)] for i in range(9)]), [2, 0]))


def test_components_of_any_datapoint_become_a_list():
    assert list(SelectComponent([(1, 2, 3)], [2, 0, 2])) == [[3, 1, 3]]
    assert list(SelectComponent([{"a": 1, "b": 2}], ("b",))) == [[2]]
    assert list(SelectComponent([Point(1, 2)], [1])) == [[2]]


@pytest.mark.parametrize(
    ("datapoint", "idxs", "message"),
    [
        (
            [1, 2],
            [0, 3],
            "no component 3 in this datapoint, which is a list of 2; one of idxs= is a position",
        ),
        ({"a": 1}, ["a", "b"], r"no component 'b' in this datapoint, which is a dict with the keys \['a'\]"),
        (7, [0], "no component 0 in this datapoint, which is of type int"),
    ],
)
def test_missing_component(datapoint, idxs, message):
    with pytest.raises(ComponentError, match=message):
        list(SelectComponent([datapoint], idxs))


@pytest.mark.parametrize("idxs", ["ab", 1, None, {0, 1}])
def test_bad_idxs(idxs):
    with pytest.raises(ArgumentTypeError, match="takes a list of components"):
        SelectComponent([[1]], idxs)
