"""The origins in traces of operators equal the origins found in their datapoints."""

import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    CacheData,
    ConcatData,
    DataFromList,
    JoinData,
    LocallyShuffleData,
    PadBatchData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    SelectComponent,
    ShardData,
    WindowData,
    ZipData,
)


def source(size=12):
    """Shuffled; the number in a datapoint is that of the member."""
    return DataFromList([[number, "other"] for number in range(size)])


def same_twice(kind, flow):
    return kind([flow, flow])


FLOWS = {
    "repeated datapoints": lambda: RepeatedDataPoint(source(), 3),
    "selected": lambda: SelectComponent(source(), [1, 0]),
    "concatenated": lambda: ConcatData([source(), source(5)]),
    "concatenated, the same": lambda: same_twice(ConcatData, source()),
    "joined": lambda: JoinData([source(), source(9)]),
    "joined, the same": lambda: same_twice(JoinData, source()),
    "zipped": lambda: ZipData([source(), source(9)]),
    "mixed": lambda: RandomMixData([source(), source(5)]),
    "mixed, the same": lambda: same_twice(RandomMixData, source()),
    "locally shuffled": lambda: LocallyShuffleData(source(), 5, num_reuse=2),
    "windows": lambda: WindowData(source(), 4, 3),
    "padded batches": lambda: PadBatchData(source(), 5, remainder=True),
    "cached": lambda: CacheData(source()),
    "cached and shuffled": lambda: RepeatedData(CacheData(source(), shuffle=True), 2),
    "all together": lambda: BatchData(
        ShardData(LocallyShuffleData(ConcatData([source(), RepeatedDataPoint(source(), 2)]), 7), 1, 2), 3
    ),
}


def numbers_in(datapoint):
    """All numbers in a datapoint."""
    if isinstance(datapoint, (list, tuple)):
        return [number for part in datapoint for number in numbers_in(part)]
    if isinstance(datapoint, np.ndarray):
        return [] if datapoint.dtype == object else datapoint.ravel().tolist()
    return [] if isinstance(datapoint, str) else [datapoint]


@pytest.mark.parametrize("name", FLOWS)
def test_traces_lead_to_the_members(name):
    flow = FLOWS[name]()
    flow.seed(11)
    for epoch in range(2):
        for index, datapoint in enumerate(flow):
            trace = flow.trace(index, epoch)
            assert trace.complete
            assert [leaf.notes["member"] for leaf in trace.sources()] == numbers_in(datapoint)
