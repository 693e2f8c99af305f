"""`None` is a datapoint like any other; only the function of a map drops by returning it."""

import pytest

from towerpack_dataflow import (
    BatchData,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromIterable,
    DataFromList,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    NotAddressableError,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    SelectComponent,
    ShardData,
    SkipData,
    ZipData,
)

VALUES = [None, [3], None, [7], None]


class Own(DataFlow):
    """A user's flow."""

    def __len__(self):
        return len(VALUES)

    def datapoint(self, epoch, index):
        return VALUES[index]


def source():
    return DataFromList(VALUES, shuffle=False)


FLOWS = {
    "DataFromList": source,
    "DataFromIterable": lambda: DataFromIterable(VALUES),
    "a flow of a user": Own,
    "MapData": lambda: MapData(source(), lambda datapoint: [datapoint]),
    "MapData twice": lambda: MapData(MapData(source(), lambda x: x or 0), lambda x: [x]),
    "MapDataComponent": lambda: MapDataComponent(source(), lambda x: x, 0),
    "SelectComponent": lambda: SelectComponent(source(), [0]),
    "CacheData": lambda: CacheData(source()),
    "CacheData that shuffles": lambda: CacheData(source(), shuffle=True),
    "RepeatedData": lambda: RepeatedData(source(), 2),
    "RepeatedDataPoint": lambda: RepeatedDataPoint(source(), 2),
    "FixedSizeData": lambda: FixedSizeData(source(), 4),
    "ConcatData": lambda: ConcatData([source(), source()]),
    "JoinData": lambda: JoinData([source(), source()]),
    "ZipData": lambda: ZipData([source(), source()]),
    "ShardData": lambda: ShardData(source(), 1, 2),
    "LocallyShuffleData": lambda: LocallyShuffleData(source(), 3),
    "RandomMixData": lambda: RandomMixData([source(), source()]),
    "BatchData": lambda: BatchData(source(), 2),
    "SkipData": lambda: SkipData(source(), [1]),
}


def result(make):
    """Returns the value of a call, or the type of its error."""
    try:
        return make()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("make", FLOWS.values(), ids=FLOWS)
def test_a_pass_and_single_datapoints_agree(make):
    flow, same = make(), make()
    flow.seed(1)
    same.seed(1)
    if not same.addressable:
        assert list(flow) == VALUES
        return
    one_by_one = result(lambda: [same.datapoint(0, index) for index in range(len(same))])
    assert result(lambda: list(flow)) == one_by_one


def test_none_below_a_map_is_given_to_its_function():
    seen = []
    flow = MapData(source(), lambda datapoint: [seen.append(datapoint)])
    assert [flow.datapoint(0, index) for index in range(5)] == list(MapData(source(), lambda x: [None]))
    assert seen == VALUES


def test_a_dropped_datapoint_is_never_yielded_as_none():
    dropping = MapData(source(), lambda datapoint: datapoint)
    above = CacheData(MapData(dropping, lambda datapoint: [datapoint]))
    with pytest.raises(NotAddressableError, match="drop"):
        above.datapoint(0, 0)
