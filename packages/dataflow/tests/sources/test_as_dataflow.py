from collections import deque

import numpy as np
import pytest

from towerpack_dataflow import ArgumentTypeError, DataFromIterable, DataFromList, MapData, ProxyDataFlow
from towerpack_dataflow.testing import check_dataflow


def test_a_flow_stays_itself_and_others_become_flows():
    flow = DataFromList([[1]])
    assert ProxyDataFlow(flow).ds is flow
    for sequence in ([[1], [2]], ([1], [2]), range(2)):
        below = ProxyDataFlow(sequence).ds
        assert type(below) is DataFromList
        assert list(below) == list(sequence)
    assert type(ProxyDataFlow({1: 2}).ds) is DataFromIterable


@pytest.mark.parametrize("wrong", [5, "abc", b"abc"])
def test_other_things_are_refused(wrong):
    with pytest.raises(
        ArgumentTypeError,
        match=rf"expected a DataFlow, a list, an object with __len__.*received {type(wrong).__name__}",
    ):
        MapData(wrong, list)


def test_a_function_is_distinguished_from_its_result():
    with pytest.raises(ArgumentTypeError, match=r"received function\. .* use DataFromGenerator\(it\)$"):
        MapData(lambda: iter([[1]]), list)


def test_a_flow_of_the_tensorpack_kind_is_welcome():
    class Old:
        resets = 0

        def reset_state(self):
            self.resets += 1

        def __len__(self):
            raise NotImplementedError

        def __iter__(self):
            return iter([[1], [2]])

    old = Old()
    flow = MapData(old, lambda dp: [dp[0] + 1])
    assert list(flow) == list(flow) == [[2], [3]]
    assert old.resets == 1
    with pytest.raises(TypeError):
        len(flow)


class Squares:
    """A data set of the kind that PyTorch has: no iteration, only members by number."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if not 0 <= index < 5:
            raise IndexError(index)
        return [index, index**2]


@pytest.mark.parametrize("members", [Squares(), np.arange(10).reshape(5, 2), deque([[1], [2]])])
def test_an_object_with_length_and_indexed_members_is_addressable(members):
    flow = MapData(members, list)
    assert flow.addressable
    assert len(flow) == len(members)
    assert list(flow) == [list(members[index]) for index in range(len(members))]
    check_dataflow(MapData(members, list))


def test_an_error_in_an_indexed_object_names_the_flow():
    class Broken(Squares):
        def __getitem__(self, index):
            raise OSError("cannot read")

    with pytest.raises(OSError, match="cannot read") as caught:
        list(MapData(Broken(), list))
    assert "MapData(list) > DataFromList" in caught.value.__notes__[0]


def test_a_table_is_iterated_over():
    class Table(Squares):
        def keys(self):
            return ["a", "b"]

        def __iter__(self):
            return iter(self.keys())

    assert list(ProxyDataFlow(Table())) == ["a", "b"]
