"""A million records through every operator: the memory of the process stays as after the first ones."""

from pathlib import Path

import pytest

from towerpack_dataflow import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFromList,
    FilterData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MemoryCache,
    PadBatchData,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    SelectComponent,
    ShardData,
    WindowData,
    ZipData,
)

RECORDS = 10**6
MOST = 2**24  # bytes; the records alone would be 100 MB if an operator kept them


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def through_all(count):
    """Every operator over `count` records; those that stack come last, for their results are fewer."""
    flow = FilterData(DataFromList(range(count), shuffle=False), lambda number: True)
    flow = MapData(flow, lambda number: [number])
    flow = FixedSizeData(RepeatedData(flow, 2), count)
    flow = LocallyShuffleData(flow, 50)
    flow = CacheData(flow, storage=MemoryCache(max_bytes=2**16))
    flow = BatchData(RepeatedDataPoint(SelectComponent(flow, [0]), 1), 100)
    flow = ShardData(ConcatData([flow, flow]), 0, 2)
    flow = WindowData(PadBatchData(BatchDataByShape(flow, 2, 0), 2), 2, 2)
    few = DataFromList([[number] for number in range(count // 500)])
    sides = JoinData([RandomChooseData([few, few]), RandomMixData([few])])
    return ZipData([flow, sides])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_records():
    for _ in through_all(RECORDS // 20):
        pass
    before = resident()
    sizes = [resident() for _ in through_all(RECORDS)]
    assert len(sizes) == RECORDS // 800 and max(sizes) - before < MOST
