"""The loaders that benchmarks/dataflow.py compares, each measured in a separate process.

    python benchmarks/_loaders.py SCENARIO SUBJECT

Prints "ready" once warmed up, then one line of figures (JSON) for each line it reads.
"""

from __future__ import annotations

import functools
import itertools
import json
import multiprocessing
import multiprocessing.pool
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import _rounds
import numpy as np

Figures = dict[str, float]
Run = Callable[[], Figures]

SHAPE = (224, 224, 3)
BATCH = 256
ENDLESS = 10**9
GB = 1e9
LONGEST = _rounds.shorter(20) / 10
SUBJECTS: dict[str, dict[str, Callable[[], Run]]] = {}


def register(
    subjects: dict[str, dict[str, Callable[[], Run]]], scenario: str, name: str
) -> Callable[[Callable[..., Run]], Callable[..., Run]]:
    """Registers a function that gets ready, and returns a function that measures once."""

    def add(function: Callable[..., Run]) -> Callable[..., Run]:
        subjects.setdefault(scenario, {})[name] = function
        return function

    return add


subject = functools.partial(register, SUBJECTS)


# ---- measuring


def timed(
    stream: Iterable[Any], count: int, skip: int, look: Callable[[Any], int], warm_up: float = 0.0
) -> Run:
    """Takes `skip` datapoints, which may lie ready, then times `count`, or what comes in `LONGEST` seconds.

    `look` says how many bytes it saw. Nothing is timed before `warm_up` seconds have passed.
    """
    iterator = iter(stream)
    stride = max(count // 20, 1)

    def run() -> Figures:
        warm = time.perf_counter() + warm_up
        for _ in range(skip):
            look(next(iterator))
        while time.perf_counter() < warm:
            look(next(iterator))
        cpu, begin, seen, taken = cpu_seconds(), time.perf_counter(), 0, 0
        seconds = 0.0
        while taken < count and seconds < LONGEST:
            for _ in range(stride):
                seen += look(next(iterator))
            taken += stride
            seconds = time.perf_counter() - begin
        return {"rate": taken / seconds, "cpu_s_per_GB": (cpu_seconds() - cpu) / max(seen / GB, 1e-9)}

    return run


def timed_afresh(make: Callable[[], Iterable[Any]], count: int, skip: int, look: Callable[[Any], int]) -> Run:
    """The same for what makes everything it is asked for as fast as it can, whether it is taken or not."""

    def run() -> Figures:
        stream = iter(make())
        figures = timed(stream, count, skip, look)()
        deque(stream, maxlen=0)  # leaves no pending work for the next measurement
        return figures

    return run


def cpu_seconds() -> float:
    """Of this process and all that descend from it and live."""
    import psutil

    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        used = process.cpu_times()
        total += used.user + used.system
    return total


def forever(make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """One pass after another."""
    while True:
        yield from make()


def look_at_pages(batch: Any) -> int:
    """Reads a byte of each page of the first component; returns its size."""
    while isinstance(batch, (list, tuple)):
        batch = batch[0]
    array = np.asarray(batch)
    assert array.shape == (BATCH, *SHAPE) and array.dtype == np.uint8, (array.shape, array.dtype)
    array.reshape(-1)[::4096].sum()
    return array.nbytes


def glance(datapoint: Any) -> int:
    """Reads one number of a record."""
    return 0 * int(datapoint["ids"][0])


def flattened(batches: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """The records of batches, one by one."""
    return itertools.chain.from_iterable(batches)


def one_thread() -> None:
    """In a worker: no pool of OpenCV's own."""
    import cv2

    cv2.setNumThreads(0)


class Cycle:
    """`make` of 0, 1, 2, … without end."""

    def __init__(self, make: Callable[[int], Any], count: int = ENDLESS) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)

    def __iter__(self) -> Iterator[Any]:
        return map(self.make, range(self.count))


def torch_loader(items: Cycle, *, walk: bool = False, **options: Any) -> Any:
    """torch's DataLoader over `items`; walked along as an IterableDataset if it does not batch."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Walk(IterableDataset):
        def __iter__(self):
            return iter(items)

    torch.set_num_threads(1)
    # Fork is the fastest start method, and the former default on Linux.
    options = {"multiprocessing_context": "fork", "prefetch_factor": 2, **options}
    return DataLoader(Walk() if walk else items, **options)


def grain_stream(dataset: Any, workers: int, buffer: int = 2) -> Iterator[Any]:
    """A Grain pipeline in worker processes with one reading thread each; by default they read 500 ahead."""
    import grain

    options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=buffer)
    return iter(dataset.to_iter_dataset(grain.ReadOptions(1, buffer)).mp_prefetch(options))


def grain_source(items: Cycle) -> Any:
    """A Grain dataset."""
    import grain

    return grain.MapDataset.source(items)


def spdl_stream(source: Iterable[Any], stages: list[tuple[Any, int]], batch: int, size: int) -> Any:
    """An SPDL pipeline in a subprocess, over its shared-memory pool; (function, concurrency) per stage."""
    from spdl.pipeline import PipelineBuilder, SharedMemorySegmentPool, run_pipeline_in_subprocess

    builder = PipelineBuilder().add_source(source)
    for function, concurrency in stages:
        builder = builder.pipe(function, concurrency=concurrency)
    if batch:
        builder = builder.aggregate(batch).pipe(np.stack)
    config = builder.add_sink(2).get_config()
    threads = max([concurrency for _, concurrency in stages], default=1) + 1
    arena = SharedMemorySegmentPool(size, 8) if size else None
    return run_pipeline_in_subprocess(config, num_threads=threads, arena=arena)


def tensorpack_stream(flow: Any, workers: int, hwm: int = 50) -> Iterator[Any]:
    """Tensorpack 0.11's ZMQ runner; `hwm` is the limit of waiting messages."""
    from tensorpack.dataflow import MultiProcessRunnerZMQ

    runner = MultiProcessRunnerZMQ(flow, workers, hwm=hwm)
    runner.reset_state()
    return iter(runner)


def tensorpack_flow(items: Iterable[Any]) -> Any:
    """A Tensorpack 0.11 flow."""
    from tensorpack.dataflow import DataFlow

    class Flow(DataFlow):
        def __iter__(self):
            return iter(items)

        def __len__(self):
            raise NotImplementedError

    return Flow()


def one_component(make: Callable[[int], Any]) -> Cycle:
    """Datapoints in Tensorpack's format."""
    return Cycle(lambda index: [make(index)])


def integers() -> Any:
    """Our flow over 0, 1, 2, …"""
    from towerpack_dataflow import DataFromList

    return DataFromList(range(ENDLESS), shuffle=False)


# ---- A1: a ready batch of images, through one worker

READY = np.arange(BATCH * 224 * 224 * 3, dtype=np.uint8).reshape(BATCH, *SHAPE)


def ready(index: int) -> np.ndarray:
    """The same large array each time."""
    return READY


@subject("A1", "towerpack")
def a1_ours() -> Run:
    from towerpack_dataflow import MapData, MultiProcessRunner

    flow = MapData(integers(), lambda index: [READY])
    return timed(forever(lambda: MultiProcessRunner(flow, 1)), 200, 20, look_at_pages)


@subject("A1", "torch")
def a1_torch() -> Run:
    return timed(torch_loader(Cycle(ready), walk=True, batch_size=None, num_workers=1), 30, 6, look_at_pages)


@subject("A1", "grain")
def a1_grain() -> Run:
    return timed(grain_stream(grain_source(Cycle(ready)), 1), 30, 6, look_at_pages)


@subject("A1", "spdl")
def a1_spdl() -> Run:
    return timed(spdl_stream(Cycle(ready), [], 0, READY.nbytes + 2**20), 60, 12, look_at_pages)


@subject("A1", "tensorpack")
def a1_tensorpack() -> Run:
    return timed(tensorpack_stream(tensorpack_flow(one_component(ready)), 1, hwm=4), 30, 6, look_at_pages)


@subject("A1", "Pool.imap")
def a1_pool() -> Run:
    pool = multiprocessing.get_context("fork").Pool(1)
    return timed_afresh(lambda: pool.imap(ready, range(12)), 9, 3, look_at_pages)


def a1_copyto(count: int) -> Run:
    targets = [np.empty_like(READY) for _ in range(count)]

    def copies() -> Iterator[np.ndarray]:
        for target in itertools.cycle(targets):
            np.copyto(target, READY)
            yield target

    return timed(copies(), 200, 20, look_at_pages)


# One buffer may fit into the processor's cache. Loaders that prepare a batch during a read have several.
subject("A1", "np.copyto")(functools.partial(a1_copyto, 1))
subject("A1", "np.copyto, six buffers")(functools.partial(a1_copyto, 6))


def same(datapoint: Any) -> Any:
    """The identity."""
    return datapoint


# ---- A2: items made in the workers and batched

ITEM = READY[0].copy()


def item(index: int) -> np.ndarray:
    """An image, different from the last one."""
    made = ITEM.copy()
    made[0, 0, 0] = index % 256
    return made


# The previous measurement has filled the caches with its batches.
timed_warm = functools.partial(timed, look=look_at_pages, warm_up=0.5)


def a2_ours(workers: int) -> Run:
    from towerpack_dataflow import BatchData, MapData, MultiProcessRunner

    flow = BatchData(MapData(integers(), lambda index: [item(index)]), BATCH)
    return timed_warm(MultiProcessRunner(flow, workers), 500, 20)


def a2_torch(workers: int) -> Run:
    return timed_warm(torch_loader(Cycle(item), batch_size=BATCH, num_workers=workers), 30, 8)


def a2_grain(workers: int) -> Run:
    return timed_warm(grain_stream(grain_source(Cycle(item)).batch(BATCH), workers), 20, 6)


def a2_spdl(workers: int) -> Run:
    # A whole batch in one call: SPDL needs some 0.25 ms for each call, so that one for each item is slower.
    stream = spdl_stream(Cycle(same), [(item_batch, workers)], 0, READY.nbytes + 2**20)
    return timed_warm(stream, 40, 12)


def item_batch(number: int) -> np.ndarray:
    """A batch of images."""
    return np.stack([item(number * BATCH + row) for row in range(BATCH)])


def a2_tensorpack(workers: int) -> Run:
    from tensorpack.dataflow import BatchData

    flow = BatchData(tensorpack_flow(one_component(item)), BATCH)
    return timed_warm(tensorpack_stream(flow, workers, hwm=4), 30, 6)


def a2_bare(count: int) -> Run:
    buffers = [np.empty_like(READY) for _ in range(count)]

    def batches() -> Iterator[np.ndarray]:
        for number, buffer in enumerate(itertools.cycle(buffers)):
            for row in range(BATCH):
                buffer[row] = item(number * BATCH + row)
            yield buffer

    return timed_warm(batches(), 500, 10)


subject("A2", "bare loop")(functools.partial(a2_bare, 1))
subject("A2", "bare loop, six buffers")(functools.partial(a2_bare, 6))


for _workers in (1, 2):
    for _name, _function in (
        ("towerpack", a2_ours),
        ("torch", a2_torch),
        ("grain", a2_grain),
        ("spdl", a2_spdl),
        ("tensorpack", a2_tensorpack),
    ):
        subject("A2", f"{_name}, {_workers}")(functools.partial(_function, _workers))

# ---- B: small records, one by one

IDS = np.arange(1000 * 128, dtype=np.int32).reshape(1000, 128)


def record(index: int) -> dict[str, Any]:
    """The data of a language model."""
    return {"ids": IDS[index % 1000], "label": index}


@subject("B", "towerpack")
def b_ours() -> Run:
    from towerpack_dataflow import MapData, MultiProcessRunner

    return timed(MultiProcessRunner(MapData(integers(), record), 1), 300_000, 50_000, glance)


@subject("B", "torch")
def b_torch() -> Run:
    return timed(torch_loader(Cycle(record), walk=True, batch_size=None, num_workers=1), 4000, 100, glance)


@subject("B", "grain")
def b_grain() -> Run:
    return timed(grain_stream(grain_source(Cycle(record)), 1, buffer=500), 4000, 100, glance)


@subject("B", "spdl")
def b_spdl() -> Run:
    return timed(spdl_stream(Cycle(record), [], 0, 0), 10_000, 1000, glance)


@subject("B", "tensorpack")
def b_tensorpack() -> Run:
    return timed(tensorpack_stream(tensorpack_flow(Cycle(record)), 1), 40_000, 2000, glance)


AT_ONCE = 1000


def records(number: int) -> list[dict[str, Any]]:
    """Many records at once."""
    return [record(number * AT_ONCE + row) for row in range(AT_ONCE)]


@subject("B", "torch, 1000 at once")
def b_torch_at_once() -> Run:
    loader = torch_loader(Cycle(record), batch_size=AT_ONCE, collate_fn=same, num_workers=1)
    return timed(flattened(loader), 40_000, 2000, glance)


@subject("B", "grain, 1000 at once")
def b_grain_at_once() -> Run:
    stream = grain_stream(grain_source(Cycle(record)).batch(AT_ONCE, batch_fn=list), 1)
    return timed(flattened(stream), 40_000, 2000, glance)


@subject("B", "spdl, 1000 at once")
def b_spdl_at_once() -> Run:
    stream = spdl_stream(Cycle(same), [(records, 1)], 0, 0)
    return timed(flattened(stream), 100_000, 10_000, glance)


@subject("B", "tensorpack, 1000 at once")
def b_tensorpack_at_once() -> Run:
    stream = tensorpack_stream(tensorpack_flow(Cycle(records)), 1)
    return timed(flattened(stream), 100_000, 10_000, glance)


@subject("B", "Pool.imap")
def b_pool() -> Run:
    pool = multiprocessing.get_context("fork").Pool(1)
    return timed_afresh(lambda: pool.imap(record, range(40_000), chunksize=200), 30_000, 10_000, glance)


# ---- C: JPEG decoding

JPEG_BATCH, JPEGS = 64, 500


@functools.cache
def jpegs(count: int = JPEGS) -> list[bytes]:
    """500 x 375 pixels each, out of the photographs that come with scikit-image, at quality 90."""
    import cv2
    from skimage import data

    photographs = [
        data.astronaut(),
        data.chelsea(),
        data.coffee(),
        data.rocket(),
        data.stereo_motorcycle()[0],
    ]
    rng = np.random.default_rng(0)
    files = []
    for number in range(count):
        image = photographs[number % len(photographs)]
        rows, columns = image.shape[:2]
        scale = max(375 / rows, 500 / columns) * rng.uniform(1.0, 1.5)
        image = cv2.resize(image, (round(columns * scale) + 1, round(rows * scale) + 1))
        top, left = rng.integers(image.shape[0] - 374), rng.integers(image.shape[1] - 499)
        part = np.ascontiguousarray(image[top : top + 375, left : left + 500, ::-1])
        files.append(cv2.imencode(".jpg", part, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())
    return files


def decoded(file: bytes, index: int) -> np.ndarray:
    """Decoded, shorter side 256, centre 224 x 224, every other one mirrored."""
    import cv2

    image = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
    height, width = image.shape[:2]
    scale = 256 / min(height, width)
    image = cv2.resize(image, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_LINEAR)
    top, left = (image.shape[0] - 224) // 2, (image.shape[1] - 224) // 2
    image = image[top : top + 224, left : left + 224]
    return np.ascontiguousarray(image[:, ::-1] if index % 2 else image)


def photo(index: int) -> np.ndarray:
    """A decoded photograph."""
    one_thread()
    return decoded(jpegs()[index % JPEGS], index)


BARE_SECONDS = 1.5


def bare_decoding(number: int) -> int:
    """The least there is to do: decode into one buffer. Returns how many images it did in `BARE_SECONDS`."""
    one_thread()
    buffer = np.empty((JPEG_BATCH, *SHAPE), np.uint8)
    end = time.perf_counter() + BARE_SECONDS
    for index in itertools.count():
        if time.perf_counter() > end:
            return index
        buffer[index % JPEG_BATCH] = photo(index)
    raise AssertionError


def images_per_second(stream: Iterable[Any], batches: int = 20, skip: int = 6) -> Run:
    """Batches are taken, images are counted."""
    return in_images(timed(stream, batches, skip, lambda batch: JPEG_BATCH))


def in_images(run: Run) -> Run:
    """Of a run that counted batches and saw images."""

    def images() -> Figures:
        figures = run()
        milliseconds = 1e3 * figures["cpu_s_per_GB"] / GB
        return {"rate": figures["rate"] * JPEG_BATCH, "cpu_ms_per_image": milliseconds}

    return images


def two_bare_loops(pool: Any) -> Run:
    jpegs()
    return lambda: {"rate": sum(pool.map(bare_decoding, range(2), chunksize=1)) / BARE_SECONDS}


@subject("C", "two bare loops, processes")
def c_bare_processes() -> Run:
    jpegs()
    return two_bare_loops(multiprocessing.get_context("fork").Pool(2))


@subject("C", "two bare loops, threads")
def c_bare_threads() -> Run:
    return two_bare_loops(multiprocessing.pool.ThreadPool(2))


@subject("C", "towerpack, processes")
def c_ours_processes() -> Run:
    from towerpack_dataflow import BatchData, DataFromList, MapData, MultiProcessRunner, RepeatedData

    numbered = DataFromList([(file, index) for index, file in enumerate(jpegs())], shuffle=False)
    flow = MapData(RepeatedData(numbered, 10_000), lambda dp: [decoded(*dp)])
    runner = MultiProcessRunner(BatchData(flow, JPEG_BATCH), 2, worker_init_fn=lambda number: one_thread())
    return images_per_second(runner)


@subject("C", "towerpack, threads")
def c_ours_threads() -> Run:
    from towerpack_dataflow import BatchData, MapData, MultiThreadRunner

    one_thread()
    jpegs()
    flow = MapData(integers(), lambda index: [photo(index)])
    return images_per_second(MultiThreadRunner(BatchData(flow, JPEG_BATCH), 2))


@subject("C", "torch, processes")
def c_torch() -> Run:
    jpegs()
    one_thread()
    return images_per_second(torch_loader(Cycle(photo), batch_size=JPEG_BATCH, num_workers=2))


@subject("C", "grain, processes")
def c_grain() -> Run:
    return images_per_second(grain_stream(grain_source(Cycle(photo)).batch(JPEG_BATCH), 2))


@subject("C", "spdl, threads in a process")
def c_spdl() -> Run:
    size = JPEG_BATCH * ITEM.nbytes + 2**20
    # A whole batch in one call: SPDL needs some 0.25 ms for each call.
    return images_per_second(spdl_stream(Cycle(same), [(photo_batch, 2)], 0, size))


@subject("C", "tensorpack, processes")
def c_tensorpack() -> Run:
    from tensorpack.dataflow import BatchData, MapData

    jpegs()
    flow = BatchData(MapData(tensorpack_flow(Cycle(same)), lambda index: [photo(index)]), JPEG_BATCH)
    return images_per_second(tensorpack_stream(flow, 2, hwm=4))


@subject("C", "Pool.imap, processes")
def c_pool() -> Run:
    jpegs()
    pool = multiprocessing.get_context("fork").Pool(2, initializer=one_thread)
    return in_images(timed_afresh(lambda: pool.imap(photo_batch, range(24)), 18, 6, lambda batch: JPEG_BATCH))


def photo_batch(number: int) -> np.ndarray:
    """A batch of decoded photographs."""
    return np.stack([photo(number * JPEG_BATCH + row) for row in range(JPEG_BATCH)])


# ---- D: start-up with a long list

PATHS = _rounds.shorter(1_281_167, 100_000)
D_WORKERS, D_BATCHES = 4, 100


@functools.cache
def long_list() -> list[tuple[str, int]]:
    """As many (path of 64 characters, label) as ImageNet has."""
    return [(f"{index:064d}", index % 1000) for index in range(PATHS)]


def start_up(start: Callable[[list[Any]], tuple[Iterator[Any], Callable[[], None]]]) -> Run:
    """Time to the first batch, and the later memory of the workers, in copies of the list."""
    import psutil

    before = psutil.Process().memory_full_info().pss
    members = long_list()
    one_copy = psutil.Process().memory_full_info().pss - before

    def run() -> Figures:
        begin = time.perf_counter()
        batches, stop = start(members)
        next(batches)
        seconds = time.perf_counter() - begin
        for _ in range(D_BATCHES):
            next(batches)
        workers = psutil.Process().children(recursive=True)
        pss = sum(worker.memory_full_info().pss for worker in workers)
        del batches
        stop()
        return {"seconds": seconds, "copies": pss / one_copy, "MB": pss / 1e6, "one copy MB": one_copy / 1e6}

    return run


def label(pair: tuple[str, int]) -> np.ndarray:
    """A trivial item."""
    return np.asarray([len(pair[0]), pair[1]])


@subject("D", "towerpack")
def d_ours() -> Run:
    from towerpack_dataflow import BatchData, DataFromList, MapData, MultiProcessRunner

    def start(members: list[Any]) -> tuple[Iterator[Any], Callable[[], None]]:
        flow = BatchData(MapData(DataFromList(members), lambda pair: [label(pair)]), BATCH)
        runner = MultiProcessRunner(flow, D_WORKERS)
        return iter(runner), lambda: None

    return start_up(start)


class Labels:
    """The list as a torch or Grain data source."""

    def __init__(self, members: list[Any]) -> None:
        self.members = members

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: int) -> np.ndarray:
        return label(self.members[index])


def d_torch(method: str) -> Run:
    import torch.utils.data  # noqa: F401

    def start(members: list[Any]) -> tuple[Iterator[Any], Callable[[], None]]:
        loader = torch_loader(
            Labels(members),
            batch_size=BATCH,
            shuffle=True,
            num_workers=D_WORKERS,
            multiprocessing_context=method,
        )
        return iter(loader), lambda: None

    return start_up(start)


subject("D", "torch, spawn")(functools.partial(d_torch, "spawn"))
subject("D", "torch, fork")(functools.partial(d_torch, "fork"))


@subject("D", "grain, spawn")
def d_grain() -> Run:
    import grain  # noqa: F401

    def start(members: list[Any]) -> tuple[Iterator[Any], Callable[[], None]]:
        return grain_stream(grain_source(Labels(members)).shuffle(0).batch(BATCH), D_WORKERS), lambda: None

    return start_up(start)


# ---- E: ten maps in one process

INTEGERS, MAPS = 10**6, 10


def drain(make: Callable[[], Iterable[Any]], count: int = INTEGERS) -> Run:
    """Reads one pass; datapoints a second."""

    def run() -> Figures:
        begin = time.perf_counter()
        deque(itertools.islice(make(), count), maxlen=0)
        return {"rate": count / (time.perf_counter() - begin)}

    return run


def mapped(datapoints: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    """A map as anyone would write it."""
    for datapoint in datapoints:
        yield function(datapoint)


@subject("E", "plain generators")
def e_plain() -> Run:
    def chain() -> Iterable[Any]:
        datapoints: Iterable[Any] = iter(range(INTEGERS))
        for _ in range(MAPS):
            datapoints = mapped(datapoints, same)
        return datapoints

    return drain(chain)


@subject("E", "towerpack")
def e_ours() -> Run:
    from towerpack_dataflow import DataFromList, MapData

    flow = DataFromList(range(INTEGERS), shuffle=False)
    for _ in range(MAPS):
        flow = MapData(flow, same)
    return drain(lambda: flow)


@subject("E", "tensorpack")
def e_tensorpack() -> Run:
    from tensorpack.dataflow import DataFromList, MapData

    flow = DataFromList(range(INTEGERS), shuffle=False)
    for _ in range(MAPS):
        flow = MapData(flow, same)
    flow.reset_state()
    return drain(lambda: flow)


@subject("E", "grain")
def e_grain() -> Run:
    import grain

    dataset = grain.MapDataset.range(INTEGERS)
    for _ in range(MAPS):
        dataset = dataset.map(same)
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return drain(lambda: iter(dataset.to_iter_dataset(options)), INTEGERS // 20)


# ---- F: resuming, and uneven work

RECORDS, RECORD_BATCH, RESUME_AT = 1_000_000, 64, 10_000


def first_after(resume: Callable[[], Iterator[Any]]) -> Run:
    """Time from a fresh pipeline and a state to the next batch."""

    def run() -> Figures:
        begin = time.perf_counter()
        iterator = resume()
        next(iterator)
        return {"seconds": time.perf_counter() - begin}

    return run


@subject("F resume", "towerpack")
def f_ours() -> Run:
    from towerpack_dataflow import BatchData, DataFromList, MapData

    source = range(RECORDS)

    def resume() -> Iterator[Any]:
        flow = BatchData(MapData(DataFromList(source, shuffle=True), record), RECORD_BATCH)
        flow.load_state_dict({"seed": 1, "epoch": 0, "index": RESUME_AT})
        return iter(flow)

    return first_after(resume)


@subject("F resume", "grain")
def f_grain() -> Run:
    import grain

    def pipeline() -> Iterator[Any]:
        dataset = grain.MapDataset.range(RECORDS).shuffle(1).map(record).batch(RECORD_BATCH)
        return iter(dataset.to_iter_dataset(grain.ReadOptions(1, 1)))

    state = pipeline().get_state()
    state["next_index"] = RESUME_AT

    def resume() -> Iterator[Any]:
        iterator = pipeline()
        iterator.set_state(state)
        return iterator

    return first_after(resume)


@subject("F resume", "tensorpack, by reading on")
def f_tensorpack() -> Run:
    from tensorpack.dataflow import BatchData, DataFromList, MapData

    def resume() -> Iterator[Any]:
        flow = BatchData(MapData(DataFromList(range(RECORDS)), record), RECORD_BATCH)
        flow.reset_state()
        return itertools.islice(flow, RESUME_AT, None)

    return first_after(resume)


def uneven(index: int) -> int:
    """1 ms of waiting, and 50 ms every fiftieth time."""
    time.sleep(0.050 if index % 50 == 0 else 0.001)
    return index


def in_order(stream: Iterable[Any]) -> Run:
    """Datapoints a second, each checked to be the next."""
    iterator = iter(stream)
    expected = itertools.count()

    def look(datapoint: Any) -> int:
        number = next(expected)
        assert int(datapoint) == number, (datapoint, number)
        return 0

    return timed(iterator, 1000, 200, look)


@subject("F uneven", "towerpack")
def f_uneven_ours() -> Run:
    from towerpack_dataflow import MapData, MultiProcessRunner

    return in_order(MultiProcessRunner(MapData(integers(), uneven), 4))


def f_uneven_torch(ahead: int) -> Run:
    return in_order(torch_loader(Cycle(uneven, 10**6), batch_size=None, num_workers=4, prefetch_factor=ahead))


def f_uneven_grain(ahead: int) -> Run:
    return in_order(grain_stream(grain_source(Cycle(uneven)), 4, buffer=ahead))


# With two datapoints ahead, as installed, a slow one holds all workers up; ours have 64 in hand.
for _ahead in (2, 64):
    subject("F uneven", f"torch, {_ahead} ahead")(functools.partial(f_uneven_torch, _ahead))
    subject("F uneven", f"grain, {_ahead} ahead")(functools.partial(f_uneven_grain, _ahead))


@subject("F uneven", "Pool.imap")
def f_uneven_pool() -> Run:
    pool = multiprocessing.get_context("fork").Pool(4)

    def run() -> Figures:
        return in_order(pool.imap(uneven, range(1200)))()

    return run


def serve(subjects: dict[str, dict[str, Callable[[], Run]]]) -> None:
    """Prepares the subject that the command line names, then measures it at each request."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps the output of libraries out of stdout
    scenario, name = sys.argv[1:]
    try:
        run = subjects[scenario][name]()
        run()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answers)
        return
    print("ready", file=answers)
    for _ in sys.stdin:
        print(json.dumps(run()), file=answers)


if __name__ == "__main__":
    serve(SUBJECTS)
    os._exit(0)  # some libraries never end
