"""A folder of JPEG files, through each loader with 4 workers, into a consumer of PyTorch.

Files are read, decoded, cut out at random, resized to 224 x 224, mirrored and normalised, in a random order:
batches of 64, float32. All but ours and tf.data make the same calls of OpenCV, the fastest of the decoders in
images.py; torchvision is there as its documents advise.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import _images_bare as bare
import numpy as np
from _feed import FOLDER, fed, forever, our_loader, subject
from _images_row import AREA, ASPECT, BATCH, MEAN, SIZE, STD
from _loaders import Run, grain_stream, one_thread

WORKERS = 4
COUNT = 40  # batches of a measurement
Consume = Callable[[Any], int]


@functools.cache
def files() -> list[str]:
    """The paths of the pictures."""
    return sorted(map(str, (FOLDER / "images").glob("*/*.jpg")))


def load(path: str, rng: np.random.RandomState) -> np.ndarray:
    """A picture out of a file."""
    return bare.normalised(bare.cut_out(bare.decode(path), rng))


def load_bytes(content: bytes, rng: np.random.RandomState) -> np.ndarray:
    """A picture out of the content of a file."""
    import cv2

    image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)
    return bare.normalised(bare.cut_out(image, rng))


def own(path: str) -> np.ndarray:
    """A picture, with the random numbers of the process."""
    return load(path, np.random.mtrand._rand)


# ---- consumers


def images_of(batch: Any) -> Any:
    """The images of a batch of any loader."""
    if isinstance(batch, dict):
        return batch["image"]
    return batch[0] if isinstance(batch, (list, tuple)) else batch


def touch(batch: Any) -> int:
    """Reads a value of each page."""
    array = np.asarray(images_of(batch))
    assert array.dtype == np.float32, array.dtype
    assert array.size == BATCH * SIZE * SIZE * 3, array.shape
    array.reshape(-1)[::1024].sum()
    return BATCH


def trainer() -> Consume:
    """A step of a small ResNet-18: a quarter of its filters, on every fourth pixel."""
    try:
        import torch
    except ImportError:  # in a short run
        return touch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = resnet18(torch)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    labels = torch.arange(BATCH) % 10

    def step(batch: Any) -> int:
        images = torch.as_tensor(images_of(batch))
        channels_last = images.shape[-1] == 3
        small = images[:, ::4, ::4].permute(0, 3, 1, 2) if channels_last else images[:, :, ::4, ::4]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(small), labels).backward()
        optimizer.step()
        return BATCH

    return step


def resnet18(torch: Any) -> Any:
    """The network."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, filters: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, filters, 3, stride, 1, bias=False),
                nn.BatchNorm2d(filters),
                nn.ReLU(),
                nn.Conv2d(filters, filters, 3, 1, 1, bias=False),
                nn.BatchNorm2d(filters),
            )
            short = [nn.Conv2d(before, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)]
            self.short = nn.Sequential(*short if before != filters else ())

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    widths = [16, 16, 32, 64, 128]
    blocks: list[Any] = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for before, filters in itertools.pairwise(widths):
        blocks += [Block(before, filters, 1 if filters == 16 else 2), Block(filters, filters, 1)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


# ---- loaders


def ours() -> Iterable[Any]:
    """The augmentors of this package."""
    from towerpack_dataflow import BatchData
    from towerpack_dataflow.augment import (
        AugmentImageComponent,
        AugmentorList,
        Flip,
        GoogleNetRandomCropAndResize,
        Normalize,
    )
    from towerpack_dataflow.datasets import ImageFolder

    crop = GoogleNetRandomCropAndResize(AREA, ASPECT, SIZE)
    recipe = AugmentorList([crop, Flip(horiz=True), Normalize(255 * MEAN, 255 * STD)])
    flow = BatchData(AugmentImageComponent(ImageFolder(FOLDER / "images"), recipe, copy=False), BATCH)
    return forever(our_loader(flow, num_workers=WORKERS))


class Files:
    """A map-style data set of PyTorch, or a source of Grain."""

    def __init__(self, load: Callable[[str], Any]) -> None:
        self.load = load

    def __len__(self) -> int:
        return len(files())

    def __getitem__(self, index: int) -> Any:
        return self.load(files()[index])


def torch_loader(data: Any, **options: Any) -> Iterable[Any]:
    """PyTorch's own loader: forked workers, the fastest start method, which stay."""
    from torch.utils.data import DataLoader

    options = {"batch_size": BATCH, "shuffle": True, "drop_last": True, **options}
    return forever(
        DataLoader(
            data,
            num_workers=WORKERS,
            persistent_workers=True,
            multiprocessing_context="fork",
            worker_init_fn=lambda _: one_thread(),
            **options,
        )
    )


def torch_opencv() -> Iterable[Any]:
    """OpenCV in PyTorch's loader."""
    import torch

    return torch_loader(Files(lambda path: torch.from_numpy(own(path))))


def torchvision() -> Iterable[Any]:
    """v2 on tensors in PyTorch's loader."""
    import torch
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms import v2

    recipe = v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, AREA, ASPECT, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN.tolist(), STD.tolist()),
        ]
    )
    return torch_loader(Files(lambda path: recipe(decode_image(path, mode=ImageReadMode.RGB))))


def grain() -> Iterable[Any]:
    """Grain's worker processes."""
    import grain

    data = grain.MapDataset.source(files()).shuffle(1).repeat().map(grain_load).batch(BATCH)
    return grain_stream(data, WORKERS)


def grain_load(path: str) -> np.ndarray:
    """A picture, in a worker of Grain."""
    one_thread()
    return own(path)


def webdataset() -> Iterable[Any]:
    """Tar files."""
    import torch
    import webdataset as wds

    shards = sorted(map(str, (FOLDER / "shards").glob("*.tar")))
    data = (
        wds.WebDataset(shards, shardshuffle=len(shards), resampled=True)
        .shuffle(100)
        .map(lambda sample: {"image": torch.from_numpy(load_bytes(sample["jpg"], np.random.mtrand._rand))})
        .batched(BATCH, partial=False)
    )
    return torch_loader(data, batch_size=None, shuffle=False, drop_last=False)


def hugging_face() -> Iterable[Any]:
    """A mapped file of Arrow with the content of the files."""
    import datasets

    def decoded(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"image": [load_bytes(content, np.random.mtrand._rand) for content in rows["jpeg"]]}

    data = datasets.load_from_disk(str(FOLDER / "hugging_face")).with_transform(decoded)
    return torch_loader(data)


def spdl() -> Iterable[Any]:
    """Threads; a call makes a whole batch, since SPDL needs some 0.25 ms for each."""
    from _images_spdl import generator
    from spdl.pipeline import PipelineBuilder

    one_thread()
    rng = np.random.default_rng(0)

    def source() -> Iterator[list[str]]:
        while True:
            order = rng.permutation(len(files()))
            for low in range(0, len(order) - BATCH + 1, BATCH):
                yield [files()[index] for index in order[low : low + BATCH]]

    def load_batch(paths: list[str]) -> np.ndarray:
        batch = np.empty((BATCH, SIZE, SIZE, 3), np.float32)
        for row, path in enumerate(paths):
            batch[row] = load(path, generator())
        return batch

    builder = PipelineBuilder().add_source(source()).pipe(load_batch, concurrency=WORKERS)
    built = builder.add_sink(2).build(num_threads=WORKERS)

    def batches() -> Iterator[Any]:
        with built.auto_stop():
            yield from built

    return batches()


def tf_data() -> Iterable[Any]:
    """TensorFlow's threads, with all settings chosen by AUTOTUNE."""
    import tensorflow as tf
    from _images_tf import whole

    def read(path: Any) -> Any:
        image = tf.image.resize(whole(tf.io.read_file(path)), (SIZE, SIZE))
        return (tf.image.random_flip_left_right(image) - 255 * MEAN) * (1 / (255 * STD))

    data = tf.data.Dataset.from_tensor_slices(files()).shuffle(len(files())).repeat()
    data = data.map(read, tf.data.AUTOTUNE, deterministic=False)
    return data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


LOADERS: dict[str, Callable[[], Iterable[Any]]] = {
    "towerpack": ours,
    "torch, OpenCV": torch_opencv,
    "torch, torchvision": torchvision,
    "grain": grain,
    "webdataset": webdataset,
    "Hugging Face": hugging_face,
    "spdl, threads": spdl,
    "tf.data": tf_data,
}


def measured(make: Callable[[], Iterable[Any]], consumer: Callable[[], Consume]) -> Run:
    """Gets a loader and a consumer ready."""
    stream = make()
    return fed(stream, consumer(), COUNT)


for _name, _make in LOADERS.items():
    subject("A touch", _name)(functools.partial(measured, _make, lambda: touch))
    subject("A train", _name)(functools.partial(measured, _make, trainer))
