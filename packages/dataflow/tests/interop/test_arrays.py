import importlib
import sys
from collections import namedtuple
from itertools import islice

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    ComponentError,
    DataFromGenerator,
    DataFromList,
    EmptyFlowError,
    FixedSizeData,
    MapData,
)
from towerpack_dataflow.interop.arrays import ArrayIterator
from towerpack_dataflow.testing import same

Pair = namedtuple("Pair", "image label")


def test_lists_become_tuples_and_numbers_arrays():
    image = np.zeros((2, 2), np.uint8)
    assert same(list(ArrayIterator([[image, 3]], epochs=1)), [(image, np.asarray(3))])
    assert same(list(ArrayIterator([{"a": [image], "b": 0.5}], 1)), [{"a": (image,), "b": np.asarray(0.5)}])
    (pair,) = ArrayIterator([Pair(image, np.int8(1))], 1)
    assert type(pair) is Pair
    assert pair.image is image
    assert pair.label.dtype == np.int8


def test_endless_or_as_often_as_asked_for():
    def numbers(iterator):
        return [int(number) for (number,) in iterator]

    def flow():
        flow = DataFromList([[i] for i in range(5)])
        flow.seed(2)
        return flow

    endless = numbers(islice(ArrayIterator(flow()), 15))
    assert numbers(ArrayIterator(flow(), epochs=3)) == endless
    assert [sorted(endless[at : at + 5]) for at in (0, 5, 10)] == [list(range(5))] * 3
    assert endless[:5] != endless[5:10]


@pytest.mark.parametrize("stop", [0, 3, 4, 5, 12])
def test_resume(stop):
    def make():
        flow = BatchData(MapData(DataFromList([[i] for i in range(12)]), lambda dp: dp), 3)
        flow.seed(4)
        return ArrayIterator(flow)

    whole = list(islice(make(), 16))
    first, second = make(), make()
    taken = list(islice(first, stop))
    next(second)  # has begun already when the state is loaded
    second.load_state_dict(first.state_dict())
    assert same(taken + list(islice(second, 16 - stop)), whole)


def test_put_gets_each_whole_datapoint():
    assert list(ArrayIterator([[1], [2]], epochs=1, put=lambda arrays: ("put", *arrays))) == [
        ("put", 1),
        ("put", 2),
    ]


def test_nothing_to_repeat():
    with pytest.raises(EmptyFlowError, match="DataFromGenerator yielded no datapoint in a whole pass"):
        next(ArrayIterator(DataFromGenerator(lambda: iter(()))))
    assert list(ArrayIterator([], epochs=2)) == []
    resumed = ArrayIterator(FixedSizeData([[1]], 1))
    resumed.load_state_dict({"seed": 0, "epoch": 0, "index": 1})
    assert next(resumed) == (1,)


def test_a_number_of_epochs_that_makes_no_sense():
    with pytest.raises(ArgumentError, match="epochs is an integer from 1 up, or None; received 0"):
        ArrayIterator([[1]], epochs=0)


def test_without_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "towerpack_dataflow.interop.torch", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-dataflow\[torch\]'"):
        importlib.import_module("towerpack_dataflow.interop.torch")


@pytest.mark.parametrize("value", [np.ma.masked_equal([1, 2], 2), "a\0", b"a\0"], ids=repr)
def test_values_unfit_for_plain_arrays_are_rejected(value):
    with pytest.raises(ComponentError, match="ArrayIterator"):
        next(ArrayIterator([[value]]))
    assert next(ArrayIterator([[np.ma.array([1, 2]), "a", 2**60]]))[2] == 2**60
