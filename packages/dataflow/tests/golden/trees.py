"""The trees of the golden states, by name. The result of a tree for a state must never change."""

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from towerpack_dataflow import (
    BatchData,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    FilterData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    PadBatchData,
    ProxyDataFlow,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    RNGDataFlow,
    ShardData,
    WindowData,
    ZipData,
)

__all__ = ["NEXT", "SEED", "TREES", "Tree", "follow", "spelt"]

SEED = 20_170
# How much of the pass after the state's own is stored, where there is an order.
NEXT = 8


# The first of a pass: in order, and as epoch 1 of unordered_processes shuffles them.
FIRST = {0, 9}


class Tree(NamedTuple):
    """A tree of flows, and where in it the state was taken."""

    build: Callable[[], DataFlow]
    epoch: int
    index: int
    ordered: bool = True
    processes: bool = False
    seeded: bool = True  # by its root; else the root draws a seed, and flows below have theirs


def draw(rng: np.random.Generator, below: int) -> int:
    """A number from the bits of a stream, which NumPy promises; how `rng.integers` uses them, it does not."""
    return int(rng.bit_generator.random_raw()) % below


def overtaken(datapoint: list[Any], rng: np.random.Generator) -> list[Any]:
    """Lets later datapoints overtake the first one, so that a state without order has a gap."""
    if datapoint[0] in FIRST:
        threading.Event().wait(0.3)
    return with_noise(datapoint, rng)


def some_overtaken(datapoint: list[Any], rng: np.random.Generator) -> list[Any] | None:
    return some(overtaken(datapoint, rng), rng)


def boxed(number: int) -> list[int]:
    return [number, number * number]


def with_noise(datapoint: list[Any], rng: np.random.Generator) -> list[Any]:
    return [*datapoint, np.float32(draw(rng, 2**20)) / np.float32(2**10)]


def noise_of(component: int, rng: np.random.Generator) -> int:
    return component + 1000 * draw(rng, 100)


def some(datapoint: list[Any], rng: np.random.Generator) -> list[Any] | None:
    return datapoint if draw(rng, 3) else None


def no_fives(datapoint: list[Any]) -> list[Any] | None:
    return None if datapoint[0] % 5 == 4 else datapoint


def as_row(datapoint: list[Any], rng: np.random.Generator) -> list[Any]:
    return [datapoint[0], np.arange(3, dtype=np.float32) + np.float32(draw(rng, 2**12))]


def shuffled(size: int) -> DataFlow:
    return MapData(DataFromList(list(range(size))), boxed)


def generated(size: int) -> DataFlow:
    return DataFromGenerator(lambda: (boxed(number) for number in range(size)))


class Uneven(RNGDataFlow):
    """A stream with separate random numbers, and passes of different lengths."""

    def __iter__(self):
        for number in range(9 + draw(self.rng, 6)):
            yield [number, draw(self.rng, 1000)]


class EveryOther(ProxyDataFlow):
    """An operator as users write them."""

    def __iter__(self):
        yield from islice(self.ds, 0, None, 2)


class ByName(DataFlow):
    """Flows in a dict, next to one in an attribute."""

    def __init__(self, **flows):
        self.flows = flows
        self.ds = shuffled(7)

    def __iter__(self):
        for name in sorted(self.flows):
            yield from islice(self.flows[name], 6)
        yield from self.ds


class OutOfSight(DataFlow):
    """Passes over flows that this one does not hold: built on the spot, or whole ones for a datapoint."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        for _ in range(3):
            yield from self.make()


class WholePasses(ProxyDataFlow):
    """Makes each datapoint of two passes over the flow below, and of one datapoint by its number."""

    def __len__(self):
        return 6

    def datapoint(self, epoch, index):
        return [index, *[number for number, _ in self.ds], *self.ds.datapoint(int(epoch), index)]


def batches_of_shuffled_maps() -> DataFlow:
    return BatchData(MapData(shuffled(23), with_noise, rng=True), 4, remainder=True)


def fixed_passes_of_a_long_shuffle() -> DataFlow:
    return FixedSizeData(shuffled(70_000), 40_003)


def endless_repetition_of_a_filter() -> DataFlow:
    kept = MapData(shuffled(7), some, rng=True, drops=True)
    return BatchData(FixedSizeData(RepeatedData(kept, -1), 22, keep_state=False), 2)


def drops_that_nothing_announced() -> DataFlow:
    return BatchData(MapData(RepeatedData(generated(9), 3), no_fives), 3, remainder=True)


def streams_of_ones_own() -> DataFlow:
    below = Uneven()
    below.seed(77)
    noisy = MapDataComponent(EveryOther(RepeatedData(below, 2)), noise_of, index=1, rng=True)
    return FixedSizeData(noisy, 10)


def batches_of_sharded_arrays() -> DataFlow:
    arrays = {"x": np.arange(62, dtype=np.float32).reshape(31, 2), "y": list(range(31))}
    return BatchData(RepeatedData(ShardData(DataFromArrays(arrays), 1, 3), 2), 3)


def flows_by_name() -> DataFlow:
    below = Uneven()
    below.seed(5)
    return MapData(ByName(one=shuffled(9), two=below), with_noise, rng=True)


def passes_out_of_sight() -> DataFlow:
    return BatchData(OutOfSight(lambda: MapData(shuffled(5), with_noise, rng=True)), 2, remainder=True)


def datapoints_of_whole_passes() -> DataFlow:
    return WholePasses(shuffled(8))


def local_shuffle_of_several_flows() -> DataFlow:
    several = ConcatData([shuffled(9), FilterData(shuffled(12), some, rng=True), generated(5)])
    return BatchData(LocallyShuffleData(several, 7, num_reuse=2), 3)


def windows_of_joined_flows() -> DataFlow:
    flow = shuffled(20)
    return WindowData(JoinData([RepeatedDataPoint(flow, 2), flow, Uneven()]), 3, 2)


def mixed_and_chosen_flows() -> DataFlow:
    mixed = RandomMixData([shuffled(1500), shuffled(700)])
    return FixedSizeData(RandomChooseData([(mixed, 0.7), (ZipData([shuffled(40)] * 2), 0.3)]), 30)


def padded_batches_out_of_a_cache() -> DataFlow:
    rows = MapData(shuffled(17), lambda datapoint: [np.arange(datapoint[0] % 4), datapoint[1]])
    return PadBatchData(CacheData(rows, shuffle=True), 3, values=-1)


def ordered_processes() -> DataFlow:
    batches = BatchData(MapData(ShardData(shuffled(41), 1, 2), as_row, rng=True), 2)
    return RepeatedData(MultiProcessRunner(batches, 2), 2)


def unordered_processes() -> DataFlow:
    return MultiProcessRunner(MapData(shuffled(59), overtaken, rng=True), 2, ordered=False)


def replicated_processes() -> DataFlow:
    return MultiProcessRunner(MapData(shuffled(11), with_noise, rng=True), 2, replicate=True)


def process_map_over_a_sharded_stream() -> DataFlow:
    stream = ShardData(RepeatedData(generated(13), 2), 0, 2)
    return BatchData(MultiProcessMapData(stream, 2, no_fives, drops=True), 2, remainder=True)


def unordered_process_map() -> DataFlow:
    return MultiProcessMapData(generated(60), 2, some_overtaken, rng=True, drops=True, ordered=False)


def process_map_and_batch_of_a_stream() -> DataFlow:
    return MultiProcessMapAndBatchData(generated(26), 2, as_row, 4, remainder=True, rng=True)


def nested_threads() -> DataFlow:
    inner = MultiThreadMapData(ShardData(shuffled(37), 2, 3), 2, with_noise, rng=True)
    return MultiThreadMapData(BatchData(MapData(inner, no_fives, drops=True), 2), 2, list)


TREES = {
    tree.build.__name__: tree
    for tree in (
        Tree(batches_of_shuffled_maps, 1, 2),
        Tree(fixed_passes_of_a_long_shuffle, 1, 39_990),
        Tree(endless_repetition_of_a_filter, 2, 6),
        Tree(drops_that_nothing_announced, 1, 3),
        Tree(streams_of_ones_own, 2, 4, seeded=False),
        Tree(batches_of_sharded_arrays, 3, 4, seeded=False),
        Tree(flows_by_name, 1, 11, seeded=False),
        Tree(passes_out_of_sight, 1, 3),
        Tree(datapoints_of_whole_passes, 2, 2),
        Tree(ordered_processes, 1, 12, processes=True),
        Tree(unordered_processes, 1, 11, ordered=False, processes=True),
        Tree(replicated_processes, 1, 5, processes=True),
        Tree(process_map_over_a_sharded_stream, 1, 2, processes=True),
        Tree(unordered_process_map, 1, 9, ordered=False, processes=True),
        Tree(process_map_and_batch_of_a_stream, 1, 3, processes=True),
        Tree(nested_threads, 1, 2),
        Tree(local_shuffle_of_several_flows, 1, 6),
        Tree(windows_of_joined_flows, 2, 3),
        Tree(mixed_and_chosen_flows, 1, 12),
        Tree(padded_batches_out_of_a_cache, 2, 2),
    )
}


def follow(iterator: Iterator[Any], flow: DataFlow, ordered: bool) -> dict[str, list[Any]]:
    """The rest of a pass and the beginning of the next, as JSON; without an order, all of it, sorted."""
    rest = [spelt(datapoint) for datapoint in iterator]
    following = [spelt(datapoint) for datapoint in islice(flow, NEXT if ordered else None)]
    if not ordered:
        rest, following = sorted(rest, key=str), sorted(following, key=str)
    return {"rest": rest, "next": following}


def spelt(value: Any) -> Any:
    """A datapoint as JSON that keeps containers, dtypes, shapes and each bit of the numbers."""
    if isinstance(value, (np.ndarray, np.generic)):
        return {"dtype": value.dtype.str, "shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, dict):
        return {"dict": {key: spelt(member) for key, member in value.items()}}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [spelt(member) for member in value]}
    assert isinstance(value, (int, float, str))
    return value
