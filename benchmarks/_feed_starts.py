"""Time to the first batch: of a folder with a million files, and after resuming in the middle of an epoch.

Libraries are imported, and files lie in the file cache. Each reads files of the folder, the class by the name
of the subfolder, in a random order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import _rounds
import numpy as np
from _feed import FOLDER, our_loader, subject
from _loaders import Figures, Run, grain_stream

BATCH, WORKERS = 64, 4
Start = Callable[[], tuple[Iterator[Any], Callable[[], None]]]


def nothing() -> None:
    """Ends a loader that ends with its iterator."""


def first_batch(start: Start) -> Run:
    """Measures the time from nothing to the first batch."""

    def run() -> Figures:
        begin = time.perf_counter()
        batches, stop = start()
        next(batches)
        seconds = time.perf_counter() - begin
        del batches
        stop()
        return {"seconds": seconds}

    return run


# ---- D: a folder with a million files


def content(path: str) -> np.ndarray:
    """The size and the first bytes of a file; decoding is measured elsewhere."""
    with open(path, "rb", buffering=0) as file:
        return np.frombuffer(file.read(16), np.uint8)


def read(pair: tuple[str, int]) -> list[Any]:
    """A file and its label."""
    return [content(pair[0]), pair[1]]


def listed() -> list[tuple[str, int]]:
    """The files, as torchvision's ImageFolder lists them."""
    folder = str(FOLDER / "many")
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    found = []
    for label, name in enumerate(classes):
        for root, _, names in sorted(os.walk(os.path.join(folder, name), followlinks=True)):
            for each in sorted(names):
                path = os.path.join(root, each)
                if path.lower().endswith((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".tif", ".tiff", ".webp")):
                    found.append((path, label))
    return found


def d_ours(**options: Any) -> Run:
    from towerpack_dataflow import BatchData, MapData
    from towerpack_dataflow.datasets import ImageFolderFiles

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        flow = BatchData(MapData(ImageFolderFiles(FOLDER / "many"), read), BATCH)
        loader = our_loader(flow, num_workers=WORKERS, **options)
        return iter(loader), loader.close

    return first_batch(start)


FORKED = "towerpack, forked workers"
subject("D", "towerpack")(d_ours)
subject("D", FORKED)(partial(d_ours, start_method="fork"))


class Files:
    """The files as a data set."""

    def __init__(self) -> None:
        self.files = listed()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return read(self.files[index])


def d_torch(method: str) -> Run:
    from torch.utils.data import DataLoader

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        loader = DataLoader(Files(), BATCH, shuffle=True, num_workers=WORKERS, multiprocessing_context=method)
        return iter(loader), nothing

    return first_batch(start)


for _method in ("fork", "spawn"):
    subject("D", f"torch, {_method}")(partial(d_torch, _method))


@subject("D", "grain")
def d_grain() -> Run:
    import grain

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        return grain_stream(grain.MapDataset.source(Files()).shuffle(1).batch(BATCH), WORKERS), nothing

    return first_batch(start)


@subject("D", "spdl, threads")
def d_spdl() -> Run:
    from spdl.pipeline import PipelineBuilder

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        files = listed()
        order = np.random.default_rng().permutation(len(files)).tolist()
        builder = PipelineBuilder().add_source(files[index] for index in order)
        builder = builder.aggregate(BATCH).pipe(lambda pairs: [read(pair) for pair in pairs])
        pipeline = builder.add_sink(2).build(num_threads=WORKERS)
        pipeline.start()
        return iter(pipeline), pipeline.stop

    return first_batch(start)


@subject("D", "tf.data")
def d_tf_data() -> Run:
    import tensorflow as tf

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        files = listed()
        paths, labels = zip(*files)
        data = tf.data.Dataset.from_tensor_slices((list(paths), list(labels))).shuffle(len(files))
        data = data.map(lambda path, label: (tf.strings.substr(tf.io.read_file(path), 0, 16), label))
        return data.batch(BATCH).prefetch(tf.data.AUTOTUNE).as_numpy_iterator(), nothing

    return first_batch(start)


# ---- E: resuming

RECORDS, RESUME_AT = _rounds.shorter(1_000_000, 10_000), _rounds.shorter(10_000, 100)
IDS = np.arange(1000 * 128, dtype=np.int32).reshape(1000, 128)


def record(index: int) -> dict[str, Any]:
    """The data of a language model."""
    return {"ids": IDS[index % 1000], "label": index}


def e_ours(workers: int, **options: Any) -> Run:
    from towerpack_dataflow import BatchData, DataFromList, MapData

    def loader() -> Any:
        flow = BatchData(MapData(DataFromList(range(RECORDS), shuffle=True), record), BATCH)
        flow.seed(1)
        return our_loader(flow, num_workers=workers, **options)

    batches = loader()
    next(iter(batches))
    state = {**batches.state_dict(), "index": RESUME_AT}
    batches.close()

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        resumed = loader()
        resumed.load_state_dict(state)
        return iter(resumed), resumed.close

    return first_batch(start)


class Records:
    """The records as a data set."""

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        return record(index)


def resumed(loader: Callable[[], Any], at: int) -> Run:
    """Takes `at` batches, and measures a loader that starts from the state after them."""
    batches = loader()
    iterator = iter(batches)
    for _ in range(at):
        next(iterator)
    state = batches.state_dict()
    del iterator

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        again = loader()
        again.load_state_dict(state)
        return iter(again), nothing

    return first_batch(start)


def e_torchdata(workers: int) -> Run:
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader() -> Any:
        generator = torch.Generator().manual_seed(1)
        options = {"multiprocessing_context": "fork"} if workers else {}
        return StatefulDataLoader(
            Records(), BATCH, shuffle=True, num_workers=workers, generator=generator, **options
        )

    return resumed(loader, RESUME_AT)


def e_grain(workers: int) -> Run:
    import grain

    def pipeline() -> Iterator[Any]:
        data = grain.MapDataset.source(Records()).shuffle(1).batch(BATCH)
        if workers:
            return grain_stream(data, workers)
        return iter(data.to_iter_dataset(grain.ReadOptions(0, 0)))

    iterator = pipeline()
    for _ in range(RESUME_AT):
        next(iterator)
    state = iterator.get_state()
    del iterator

    def start() -> tuple[Iterator[Any], Callable[[], None]]:
        resumed = pipeline()
        resumed.set_state(state)
        return resumed, nothing

    return first_batch(start)


def e_hugging_face(workers: int) -> Run:
    import datasets
    from torchdata.stateful_dataloader import StatefulDataLoader

    rows = datasets.Dataset.from_dict(
        {"ids": np.tile(IDS[:1, :1], (RECORDS, 1)), "label": np.arange(RECORDS)}
    )

    def loader() -> Any:
        data = rows.to_iterable_dataset(num_shards=max(workers, 1)).shuffle(seed=1, buffer_size=1000)
        options = {"multiprocessing_context": "fork"} if workers else {}
        return StatefulDataLoader(data.with_format("torch"), BATCH, num_workers=workers, **options)

    return resumed(loader, _rounds.shorter(100))


for _scenario, _workers in (("E alone", 0), ("E workers", 2)):
    subject(_scenario, "towerpack")(partial(e_ours, _workers))
    if _workers:
        subject(_scenario, FORKED)(partial(e_ours, _workers, start_method="fork"))
    subject(_scenario, "torchdata")(partial(e_torchdata, _workers))
    subject(_scenario, "grain")(partial(e_grain, _workers))
    subject(_scenario, "Hugging Face, a stream, at batch 100")(partial(e_hugging_face, _workers))
