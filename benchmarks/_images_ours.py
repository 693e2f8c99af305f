"""The pipeline of `images.py` in towerpack-dataflow, in this process or by two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import _images_bare as bare
import numpy as np
from _images_files import paths
from _images_row import AREA, ASPECT, BATCH, COUNT, FACTORS, JITTER, MEAN, SIZE, STD, Run, passes
from _loaders import one_thread

from towerpack_dataflow import BatchData, DataFlow, MultiProcessRunner, MultiThreadRunner
from towerpack_dataflow.augment import (
    AugmentImageComponent,
    AugmentorList,
    BrightnessScale,
    Contrast,
    Flip,
    GoogleNetRandomCropAndResize,
    ImageFromFile,
    Normalize,
    RandomOrderAug,
    Saturation,
    drawing_from,
    read_image,
)


def augmentors() -> AugmentorList:
    """The recipe."""
    colours = [BrightnessScale(FACTORS), Contrast(FACTORS, rgb=True), Saturation(JITTER)]
    return AugmentorList(
        [
            GoogleNetRandomCropAndResize(AREA, ASPECT, SIZE),
            Flip(horiz=True),
            RandomOrderAug(colours),
            Normalize(255 * MEAN, 255 * STD),
        ]
    )


def flow(folder: str, reduce: int = 1) -> DataFlow:
    """Batches of a pass."""
    images = ImageFromFile(paths(folder, COUNT), reduce=reduce)
    return BatchData(AugmentImageComponent(images, augmentors(), copy=False), BATCH)


def first(datapoints: DataFlow) -> Iterator[np.ndarray]:
    """The images of batches."""
    return (datapoint[0] for datapoint in datapoints)


def one_core(folder: str) -> dict[str, Run]:
    """Our pipeline and the bare loop, in one process on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    one_thread()
    same_pictures(folder)
    return {
        "bare loop, one core": passes(partial(bare.batches, folder)),
        "ours, one core": passes(lambda: first(flow(folder))),
        "bare loop, one core, half the size": passes(partial(bare.batches, folder, bare.decode_halved)),
        "ours, one core, half the size": passes(lambda: first(flow(folder, 2))),
    }


def same_pictures(folder: str) -> None:
    """Checks that the bare loop and our augmentors give the same results for the same random numbers."""
    recipe = augmentors()
    for number, path in enumerate(paths(folder, 8)):
        with drawing_from(np.random.RandomState(number)):
            made = recipe.augment(read_image(path))
        assert np.allclose(made, bare.load(bare.decode, np.random.RandomState(number), path), atol=1e-5)


def processes(folder: str, reduce: int = 1) -> Run:
    """Two workers that are processes."""
    return passes(
        lambda: first(MultiProcessRunner(flow(folder, reduce), 2, worker_init_fn=lambda _: one_thread()))
    )


def halved(folder: str) -> Run:
    """Two workers that are processes, and decode at half the height and width."""
    return processes(folder, 2)


def threads(folder: str) -> Run:
    """Two workers that are threads."""
    one_thread()
    return passes(lambda: first(MultiThreadRunner(flow(folder), 2)))
