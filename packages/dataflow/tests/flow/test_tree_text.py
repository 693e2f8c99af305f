"""`repr` shows the tree, with non-default arguments and without data."""

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
    MapDataComponent,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    RNGDataFlow,
    ShardData,
)


def double(number):
    return number


class Both(DataFlow):
    def __init__(self, one, parts, *, rate=0.5, path="here", array=None):
        self.one = one
        self._parts = parts
        self.rate = rate
        self.path = path
        self.array = array


class Hidden(DataFlow):
    """Its constructor's arguments have other names than its attributes."""

    def __init__(self, below):
        self.flows = {"x": below}


class Unspecified(RNGDataFlow):
    pass


class Logged(ProxyDataFlow):
    pass


def numbers():
    return DataFromList(list(range(60)), shuffle=False)


LIST = "DataFromList(lst=list of 60, shuffle=False)"


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (DataFromList([[0]] * 60), "DataFromList(lst=list of 60)"),
        (DataFromList(range(9), shuffle=False), "DataFromList(lst=range(0, 9), shuffle=False)"),
        (DataFromIterable({1, 2}), "DataFromIterable(iterable=set of 2)"),
        (DataFromGenerator(double), "DataFromGenerator(gen=double)"),
        (
            DataFromArrays({"x": np.zeros((5, 2)), "y": [1] * 5}, shuffle=False),
            "DataFromArrays(components=dict of 2 of length 5, shuffle=False)",
        ),
        (MapData(numbers(), double, rng=True), f"MapData({LIST}, func=double, rng=True)"),
        (MapDataComponent(numbers(), double, index=1), f"MapDataComponent({LIST}, func=double, index=1)"),
        (BatchData(numbers(), 4, remainder=True), f"BatchData({LIST}, batch_size=4, remainder=True)"),
        (RepeatedData(numbers(), -1), f"RepeatedData({LIST}, num=-1)"),
        (FixedSizeData(numbers(), 7), f"FixedSizeData({LIST}, size=7)"),
        (ShardData(numbers(), 1, 2), f"ShardData({LIST}, index=1, count=2)"),
        (PrintData(numbers(), 2), f"PrintData({LIST}, num=2)"),
        (
            MultiProcessRunner(numbers(), 3, start_method="fork"),
            f"MultiProcessRunner({LIST}, num_workers=3, start_method='fork')",
        ),
        (
            MultiThreadMapData(numbers(), "auto", double, ordered=False),
            f"MultiThreadMapData(MapData({LIST}, func=double), num_threads='auto', ordered=False",
        ),
        (
            MultiProcessMapData(numbers(), 2, double),
            f"MultiProcessMapData(MapData({LIST}, func=double), num_w",
        ),
        (
            MultiProcessMapAndBatchData(numbers(), 2, double, 4),
            f"MultiProcessMapAndBatchData(MultiProcessRunner(BatchData(MapData({LIST}, func=double), batch_",
        ),
        (Both(numbers(), [Unspecified()], rate=0.5), f"Both({LIST}, parts=[Unspecified()])"),
        (
            Both(Unspecified(), {"a": numbers()}, rate=0.25, path="x" * 90, array=np.zeros((9, 2), "f4")),
            f"Both(Unspecified(), parts={{'a': {LIST}}}, rate=0.25, path='{'x' * 40}…', array=array of ",
        ),
        (
            Both(Unspecified(), [Unspecified()] * 9),
            "Both(Unspecified(), parts=list of 9, Unspecified(), Unspecified(), Unspecified(), … 9 flows)",
        ),
        (Hidden(numbers()), f"Hidden({LIST})"),
        (Logged(Unspecified()), "Logged(Unspecified())"),
    ],
)
def test_a_flow_shows_its_tree(flow, text):
    assert repr(flow).startswith(text)


def test_datapoints_are_not_shown_and_nothing_is_read():
    secret = ["secret"] * 3
    flow = Both(DataFromList(secret), secret, array=np.array(secret))
    assert "secret" not in repr(flow)
    assert len(repr(Both(Unspecified(), list(range(10**6)), path="y" * 10**6))) < 200


def test_a_tree_that_holds_itself_is_cut():
    flow = Logged([1])
    flow.ds = flow
    assert repr(flow).count("Logged") == 32


@given(st.recursive(st.just(numbers()), lambda below: st.builds(Logged, below), max_leaves=3))
def test_custom_operators_show_the_flows_below(flow):
    assert LIST in repr(flow)
