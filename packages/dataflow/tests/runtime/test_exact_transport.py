"""Datapoints keep values and types in transit: from workers, packed lists, caches and shuffles."""

from typing import Any

import cloudpickle
import numpy as np
import pytest
from any_datapoints import columns, datapoints, difference, few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    CacheData,
    DataFromGenerator,
    DataFromList,
    LocallyShuffleData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    WindowData,
)
from towerpack_dataflow.storage import PackedList, SharedListPickle

ALIKE = columns().map(lambda column: [{"value": value, "row": row} for row, value in enumerate(column * 4)])
ROWS = st.lists(datapoints(), min_size=1, max_size=12) | ALIKE
MANY = st.lists(datapoints(), min_size=10, max_size=20).flatmap(
    lambda some: ALIKE.map(lambda rows: some + rows)
)
LONG = 2**15


def native(value: Any) -> Any:
    """Returns a value with arrays in the byte order of the machine, as NumPy's pickles of some dtypes are."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, list | tuple):
        return type(value)(map(native, value))
    return {key: native(each) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.slow
@few_examples(2)
@given(rows=MANY)
def test_datapoints_come_out_of_a_worker_as_they_went_in(rows):
    expected = native(rows)
    with MultiProcessRunner(DataFromGenerator(lambda: iter(rows)), 1) as flow:
        assert difference(expected, native(list(flow))) is None


@pytest.mark.slow
@few_examples()
@given(rows=ROWS)
def test_datapoints_come_out_of_threads_caches_and_shuffles_as_they_went_in(rows):
    source = DataFromList(rows, shuffle=False)
    with MultiThreadRunner(source, 1) as flow:
        assert difference(rows, list(flow)) is None
    cached = CacheData(source)
    assert difference(rows, list(cached)) is None
    assert difference(rows, list(cached)) is None
    numbered = DataFromList(list(enumerate(rows)), shuffle=False)
    shuffled = sorted(LocallyShuffleData(numbered, 5), key=lambda pair: pair[0])
    assert difference(rows, [datapoint for _, datapoint in shuffled]) is None


@pytest.mark.slow
@few_examples()
@given(rows=ROWS)
def test_the_members_of_a_packed_list_are_those_of_the_list(rows):
    # Long members, which share nothing, so that the list is worth packing.
    members = [[row, bytes(bytearray(LONG))] for row in (rows * 16)[:48]]
    lists = SharedListPickle()
    with lists.packing():
        pickled = cloudpickle.dumps(DataFromList(members, shuffle=False))
    copy = cloudpickle.loads(pickled)
    lists.close()
    assert type(copy._lst) is PackedList
    assert difference(native(members), native(copy._lst[:])) is None
    assert difference(native(members[-1]), native(copy.datapoint(0, len(members) - 1))) is None


@pytest.mark.parametrize(
    "collecting",
    [CacheData, lambda flow: WindowData(flow, 3, use_list=True), lambda flow: MultiThreadRunner(flow, 1)],
    ids=["CacheData", "WindowData", "MultiThreadRunner"],
)
def test_a_mask_that_its_maker_changes_later_stays(collecting):
    def changing():
        one = np.ma.array(np.zeros(3), mask=[False] * 3)
        mask = one.mask
        for place in range(3):
            mask[...] = False
            mask[place] = True
            yield [np.ma.array(np.full(3, place), mask=mask, copy=False)]

    flow = collecting(DataFromGenerator(changing))
    list(flow)
    got = list(flow)  # of a cache, copies
    arrays = got[0][0] if len(got) == 1 else [array for (array,) in got]
    assert [array.mask.tolist() for array in arrays] == np.eye(3, dtype=bool).tolist()


@pytest.mark.parametrize("empty", ["", b"", [], (), {}, np.zeros(0)], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda source: MultiThreadRunner(source, 1),
        lambda source: MultiProcessRunner(source, 0),
        lambda source: MultiThreadMapData(source, 1, _same),
        lambda source: MultiProcessMapData(source, 0, _same),
    ],
)
def test_datapoints_without_a_byte_do_not_vanish(make, empty):
    for rows in ([empty] * 3, [[empty]] * 3, [[0], [empty]]):
        for source in (DataFromList(rows, shuffle=False), DataFromGenerator(lambda rows=rows: iter(rows))):
            with make(source) as flow:
                assert difference(rows, list(flow)) is None


def _same(datapoint: Any) -> Any:
    return datapoint
