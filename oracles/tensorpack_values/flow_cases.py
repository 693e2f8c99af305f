"""All flows of `tensorpack.dataflow`: datapoints, sizes, and what a second pass gives."""

from __future__ import annotations

import queue
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from cases import add, case, drawn, raised
from tensorpack.dataflow import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    FakeData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapData,
    MultiProcessMapDataZMQ,
    MultiProcessPrefetchData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
    PrefetchDataZMQ,
    PrintData,
    ProxyDataFlow,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    RNGDataFlow,
    SelectComponent,
    TestDataSpeed,
)
from tensorpack.utils.utils import fix_rng_seed

ROWS = [[drawn(f"row{n}", (2, 3)), n, n / 4, n % 2 == 0, f"name {n}"] for n in range(7)]
NUMBERS = [[n, n * n] for n in range(7)]


def rows(which: Any = ROWS) -> Any:
    return DataFromList(which, shuffle=False)


def read(flow: Any, passes: int = 1, limit: int = 40) -> Any:
    """Resets a flow, and returns its size and the datapoints of passes, with the dtypes of their arrays."""
    flow.reset_state()
    found = [[_with_dtype(each) for each in islice(flow, limit)] for _ in range(passes)]
    return {"size": size(flow), "passes": found}


def size(flow: Any) -> Any:
    """Returns the size of a flow, if it has one."""
    try:
        return len(flow)
    except (NotImplementedError, TypeError):
        return "none"


def _with_dtype(datapoint: Any) -> Any:
    if isinstance(datapoint, dict):
        return {name: _with_dtype(value) for name, value in datapoint.items()}
    if isinstance(datapoint, (list, tuple)):
        return [_with_dtype(each) for each in datapoint]
    return [datapoint, str(datapoint.dtype)] if isinstance(datapoint, np.ndarray) else datapoint


def together(flow: Any, limit: int = 40) -> Any:
    """Returns all first components in their order of size: for flows that give any order."""
    flow.reset_state()
    return sorted(np.ravel([datapoint[0] for datapoint in islice(flow, limit)]).tolist())


@case
def sources() -> Any:
    waiting: queue.Queue[Any] = queue.Queue()
    for each in NUMBERS:
        waiting.put(each)
    return [
        read(rows(), 2),
        read(DataFromIterable(iter(NUMBERS))),
        read(DataFromIterable(NUMBERS), 2),
        read(DataFromGenerator(lambda: iter(NUMBERS)), 2),
        read(DataFromGenerator(NUMBERS), 2),
        read(DataFromQueue(waiting), limit=5),
    ]


@case
def batches() -> Any:
    return [
        read(BatchData(rows(), 3), 2),
        read(BatchData(rows(), 3, remainder=True), 2),
        read(BatchData(rows(), 7, use_list=True)),
        read(BatchData(MapData(rows(), lambda dp: {"a": dp[0], "b": dp[1]}), 2)),
        read(BatchData(MapData(rows(), tuple), 2)),
        read(BatchData(rows([[np.int64(3), np.uint8(4), np.float64(5)]] * 4), 2)),
        raised(BatchData, rows(), 8),
        read(BatchDataByShape(rows([[np.ones(n % 2 + 1), n] for n in range(9)]), 2, 0), 2),
    ]


@case
def sizes() -> Any:
    return [
        read(FixedSizeData(rows(NUMBERS), 3), 4),
        read(FixedSizeData(rows(NUMBERS), 3, keep_state=False), 2),
        read(FixedSizeData(rows(NUMBERS), 9, keep_state=False), 2),
        read(RepeatedData(rows(NUMBERS), 3), 2),
        read(RepeatedData(rows(NUMBERS), -1), 1),
        read(RepeatedDataPoint(rows(NUMBERS), 3), 2),
        read(ConcatData([rows(NUMBERS), rows(NUMBERS[:2])]), 2),
        read(CacheData(rows(NUMBERS)), 2),
        read(TestDataSpeed(rows(NUMBERS), 3)),
        read(PrintData(rows(NUMBERS))),
    ]


@case
def mapped() -> Any:
    return [
        read(MapData(rows(NUMBERS), lambda dp: [dp[0] * 2]), 2),
        read(MapData(rows(NUMBERS), lambda dp: dp if dp[0] % 2 else None), 2),
        read(MapDataComponent(rows(NUMBERS), lambda x: x + 0.5, 1), 2),
        read(MapDataComponent(rows(NUMBERS), lambda x: x if x > 3 else None), 1),
        read(MapDataComponent(MapData(rows(NUMBERS), lambda dp: {"a": dp[0]}), str, "a")),
        read(MapDataComponent(MapData(rows(NUMBERS), tuple), str, 1)),
        read(SelectComponent(rows(NUMBERS), [1, 0]), 2),
        read(SelectComponent(MapData(rows(NUMBERS), lambda dp: {"a": dp[0], "b": 1}), ["b", "a"])),
    ]


@case
def joined() -> Any:
    named = MapData(rows(NUMBERS), lambda dp: {"a": dp[0]})
    other = MapData(rows(NUMBERS), lambda dp: {"b": dp[1]})
    return [
        read(JoinData([rows(NUMBERS), rows(ROWS)]), 2),
        read(JoinData([named, other])),
        read(JoinData([rows(NUMBERS), rows(NUMBERS[:3])]), 2),
        read(JoinData([MapData(rows(NUMBERS), tuple), rows(NUMBERS)])),
    ]


@case
def mixed() -> Any:
    return [
        together(RandomMixData([rows(NUMBERS), rows(NUMBERS[:3])])),
        len(RandomMixData([rows(NUMBERS), rows(NUMBERS[:3])])),
        together(RandomChooseData([RepeatedData(rows([[5]]), -1), RepeatedData(rows([[5]]), -1)])),
        together(RandomChooseData([(RepeatedData(rows([[5]]), -1), 1.0), (rows([[6]]), 0.0)])),
        together(DataFromList(NUMBERS)),
        together(CacheData(rows(NUMBERS), shuffle=True)),
    ]


@case
def locally_shuffled() -> Any:
    flow = LocallyShuffleData(rows([[n] for n in range(30)]), 10)
    flow.reset_state()
    taken = [datapoint[0] for datapoint in islice(flow, 20)]
    reused = LocallyShuffleData(rows(NUMBERS), 4, num_reuse=2)
    near = all(n < place + 10 for place, n in enumerate(taken))
    return near, len(set(taken)), len(flow), len(reused)


@case
def fakes() -> Any:
    def of(**options: Any) -> Any:
        flow = FakeData([(2, 3), (4,), (1,)], 5, **options)
        flow.reset_state()
        found = list(flow)
        return [
            len(flow),
            [np.shape(each) for each in found[0]],
            [str(np.asarray(each).dtype) for each in found[0]],
            [bool(np.min(each) >= 0) for each in found[0]],
            np.array_equal(found[0][0], found[1][0]),
        ]

    return [
        of(),
        of(random=False),
        of(dtype="uint8", domain=(0, 255)),
        of(dtype=["float32", "int64", "uint8"], domain=[(0, 1), (5, 9), (0, 255)]),
    ]


class Own(RNGDataFlow):
    """A flow of a program, with random numbers."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Any:
        for _ in range(4):
            yield [self.rng.randint(100), self.rng.rand(2), self.rng.choice(5, 2, replace=False)]


class Older(DataFlow):
    """A flow of a program written before 0.9."""

    def get_data(self) -> Any:
        yield from ([n] for n in range(3))

    def size(self) -> int:
        return 3


class Proxy(ProxyDataFlow):
    """A proxy of a program."""

    def __iter__(self) -> Any:
        for datapoint in self.ds:
            yield [*datapoint, "more"]


@case
def own_flows() -> Any:
    return [
        read(Proxy(rows(NUMBERS)), 2),
        sorted(each[0] < 100 for each in _datapoints(Own())),
        [str(np.asarray(each).dtype) for each in _datapoints(Own())[0]],
        [each[0] for each in rows(NUMBERS).get_data()],
        rows(NUMBERS).size(),
    ]


def _datapoints(flow: Any) -> Any:
    flow.reset_state()
    return list(flow)


TWELVE = [[n, n + 1] for n in range(12)]


def double(datapoint: Any) -> Any:
    return [datapoint[0] * 2, datapoint[1]]


WORKERS: dict[str, Callable[[Any], Any]] = {
    "MultiThreadMapData": lambda flow: MultiThreadMapData(flow, 2, double, buffer_size=4, strict=True),
    "MultiProcessMapDataZMQ": lambda flow: MultiProcessMapDataZMQ(
        flow, 2, double, buffer_size=4, strict=True
    ),
    "MultiProcessMapData": lambda flow: MultiProcessMapData(flow, 2, double, buffer_size=4, strict=True),
    "MultiProcessRunner": lambda flow: MultiProcessRunner(flow, 4, 1),
    "MultiProcessPrefetchData": lambda flow: MultiProcessPrefetchData(flow, 4, 1),
    "MultiProcessRunnerZMQ": lambda flow: MultiProcessRunnerZMQ(flow, 1),
    "PrefetchDataZMQ": lambda flow: PrefetchDataZMQ(flow, 1),
    "MultiThreadRunner": lambda flow: MultiThreadRunner(lambda: flow, 4, 1),
}
for name, make in WORKERS.items():
    add(f"flow/{name}", lambda make=make: together(make(rows(TWELVE)), 12))


@case
def sizes_of_workers() -> Any:
    flow = rows(TWELVE)
    batched = MultiProcessMapAndBatchDataZMQ(flow, 2, double, 4, buffer_size=8)
    return [
        size(WORKERS["MultiProcessMapDataZMQ"](flow)),
        size(MultiProcessRunnerZMQ(flow, 1)),
        size(batched),
    ]


@case
def mapped_batches_of_workers() -> Any:
    batched = MultiProcessMapAndBatchDataZMQ(rows(TWELVE), 2, double, 4, buffer_size=8)
    batched.reset_state()
    found = list(islice(batched, 3))
    return [each[0].shape for each in found], str(found[0][0].dtype)


@case
def flows_of_older_programs() -> Any:
    flow = Older()
    flow.reset_state()
    return [list(flow.get_data()), flow.size()]


@case
def seeded_flows() -> Any:
    found = []
    for seed in (42, 42, 43):
        fix_rng_seed(seed)
        flows = [
            Own(),
            DataFromList(NUMBERS),
            RandomMixData([rows(NUMBERS), rows(NUMBERS)]),
            FakeData([(2,)], 3),
        ]
        found.append([np.ravel([each[0] for each in _datapoints(flow)]) for flow in flows])
    repeat = [np.array_equal(one, two) for one, two in zip(found[0], found[1])]
    return {"repeat": repeat, "differ": np.array_equal(found[0][3], found[2][3]), "numbers": found}
