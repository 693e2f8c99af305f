"""The flows of benchmarks/flows.py: chains and plain generators, and each operator over records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from time import perf_counter
from typing import Any

import numpy as np

from towerpack_dataflow import (
    BatchByBudget,
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FakeData,
    FilterData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
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

BUFFERS = (100, 1000, 10_000)


def drain(datapoints: Iterable[Any], count: int) -> float:
    """Reads a pass; returns datapoints a second."""
    begin = perf_counter()
    deque(datapoints, maxlen=0)
    return count / (perf_counter() - begin)


def same(datapoint: Any) -> Any:
    """The identity."""
    return datapoint


def all_of(datapoint: Any) -> bool:
    """Accepts every datapoint."""
    return True


# ---- each in a separate process


def our_shuffles(count: int) -> dict[str, Callable[[], float]]:
    """Datapoints a second through `LocallyShuffleData`, by the size of its buffer."""
    return {
        f"ours, {size}": lambda size=size: drain(
            LocallyShuffleData(DataFromList(range(count), shuffle=False), size), count
        )
        for size in BUFFERS
    }


def their_shuffles(count: int) -> dict[str, Callable[[], float]]:
    """The same of Tensorpack."""
    from tensorpack.dataflow import DataFromList as TheirList
    from tensorpack.dataflow import LocallyShuffleData as TheirShuffle

    def run(size: int) -> float:
        # Its pass is endless, since it continues with the next one.
        flow = TheirShuffle(TheirList(range(count), shuffle=False), size)
        flow.reset_state()
        return drain((datapoint for datapoint, _ in zip(flow, range(count))), count)

    return {f"Tensorpack 0.11, {size}": lambda size=size: run(size) for size in BUFFERS}


def ten_maps(count: int) -> Callable[[], float]:
    """Ten maps over each other."""
    flow: DataFlow = DataFromList(range(count), shuffle=False)
    for _ in range(10):
        flow = MapData(flow, same)
    return lambda: drain(flow, count)


def ten_generators(count: int) -> Callable[[], float]:
    """Ten plain generators over each other."""

    def run() -> float:
        datapoints: Iterable[Any] = iter(range(count))
        for _ in range(10):
            datapoints = mapped(datapoints, same)
        return drain(datapoints, count)

    return run


def ten_operators(count: int) -> Callable[[], float]:
    """Ten operators of different kinds over each other."""
    flow = MapData(DataFromList(range(count // 2), shuffle=False), lambda number: [number, -number])
    flow = SelectComponent(flow, [1, 0])
    flow = FilterData(flow, all_of)
    flow = MapDataComponent(flow, same)
    flow = FixedSizeData(flow, count // 2)
    flow = JoinData([flow, [[1]] * (count // 2)])
    flow = ConcatData([flow])
    flow = RepeatedDataPoint(flow, 2)
    flow = RepeatedData(flow, 1)
    flow = MapData(flow, same)
    return lambda: drain(flow, count)


def ten_plain_operators(count: int) -> Callable[[], float]:
    """The equivalent code of a user."""

    def run() -> float:
        datapoints: Iterable[Any] = mapped(range(count // 2), lambda number: [number, -number])
        datapoints = ([datapoint[1], datapoint[0]] for datapoint in datapoints)
        datapoints = (datapoint for datapoint in datapoints if all_of(datapoint))
        datapoints = with_component(datapoints, same)
        datapoints = (datapoint for datapoint, _ in zip(datapoints, range(count // 2)))
        datapoints = joined(datapoints, [[1]] * (count // 2))
        datapoints = (datapoint for part in [datapoints] for datapoint in part)
        datapoints = (datapoint.copy() for datapoint in datapoints for _ in range(2))
        datapoints = (datapoint for part in [datapoints] for datapoint in part)
        return drain(mapped(datapoints, same), count)

    return run


def mapped(datapoints: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    """A map as anyone would write it."""
    for datapoint in datapoints:
        yield function(datapoint)


def with_component(datapoints: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    """A map of the first component."""
    for datapoint in datapoints:
        datapoint[0] = function(datapoint[0])
        yield datapoint


def joined(one: Iterable[Any], other: Iterable[Any]) -> Iterator[Any]:
    """Two iterables side by side."""
    for datapoint, more in zip(one, other):
        yield [*datapoint, *more]


# ---- planned batches


def lengths_up_to_512(count: int) -> np.ndarray:
    """Tokens of each datapoint."""
    return np.random.default_rng(0).integers(1, 512, count)


def plans(count: int, window: int | None) -> float:
    """Seconds from lengths to a flow of batches of 4096 tokens."""
    lengths = lengths_up_to_512(count)
    begin = perf_counter()
    BatchByBudget(range(count), lengths, 4096, window)
    return perf_counter() - begin


def resumes(count: int, window: int | None) -> float:
    """Seconds from a position in the middle of the second epoch to the next batch, in a new flow."""
    flow = BatchByBudget(range(count), lengths_up_to_512(count), 4096, window, collate=len)
    position = flow.state_at(len(flow) * 3 // 2)
    begin = perf_counter()
    flow.load_state_dict(position)
    next(iter(flow))
    return perf_counter() - begin


# ---- each operator over records, for its memory


def records(count: int) -> DataFlow:
    """A stream of new arrays of about 1 KB."""
    return DataFromGenerator(lambda: ([np.empty(1000, np.uint8), number] for number in range(count)))


def counted(count: int) -> DataFlow:
    """Addressable records."""
    return MapData(range(count), lambda number: [np.empty(1000, np.uint8), number])


def by_length(count: int) -> DataFlow:
    """Records of several lengths."""
    return MapData(records(count), lambda dp: [dp[0][: dp[1] % 7 * 100], dp[1]])


def mixed_from(count: int) -> list[DataFlow]:
    """Two addressable flows of unequal lengths."""
    return [counted(count // 4), counted(count - count // 4)]


OPERATORS: dict[str, Callable[[int], DataFlow]] = {
    "MapData": lambda n: MapData(records(n), same),
    "MapDataComponent": lambda n: MapDataComponent(records(n), same),
    "SelectComponent": lambda n: SelectComponent(records(n), [1, 0]),
    "FilterData": lambda n: FilterData(records(n), lambda dp: dp[1] % 2),
    "RepeatedData": lambda n: RepeatedData(records(n // 2), 2),
    "FixedSizeData": lambda n: FixedSizeData(records(n // 2), n),
    "RepeatedDataPoint": lambda n: RepeatedDataPoint(records(n // 2), 2),
    "ShardData": lambda n: ShardData(records(n), 1, 2),
    "BatchData": lambda n: BatchData(records(n), 32),
    "PadBatchData": lambda n: PadBatchData(by_length(n), 32),
    "BatchDataByShape": lambda n: BatchDataByShape(by_length(n), 32, 0),
    "WindowData": lambda n: WindowData(records(n), 8, 4),
    "ConcatData": lambda n: ConcatData([records(n // 2), records(n // 2)]),
    "JoinData": lambda n: JoinData([records(n), records(n)]),
    "ZipData": lambda n: ZipData([records(n), counted(n)]),
    "RandomChooseData": lambda n: RandomChooseData(mixed_from(n)),
    "RandomMixData": lambda n: RandomMixData(mixed_from(n)),
    "LocallyShuffleData": lambda n: LocallyShuffleData(records(n), 100),
    "CacheData with a limit": lambda n: CacheData(records(n), storage=MemoryCache(max_bytes=2**17)),
    "FakeData": lambda n: FakeData([[100]], n),
}


def again(flow: DataFlow) -> Iterator[Any]:
    """Two passes, to include objects that the first one keeps for the second."""
    return chain.from_iterable(repeat(flow, 2))
