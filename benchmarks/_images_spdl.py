"""SPDL: threads that call OpenCV as the bare loop does, or its own decoder with FFmpeg's filters.

A call makes a whole batch, since SPDL needs some 0.25 ms for each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import _images_bare as bare
import numpy as np
from _images_files import HEIGHT, WIDTH, paths
from _images_row import BATCH, COUNT, SIZE, Run, passes
from _loaders import one_thread

_threads = threading.local()


def generator() -> np.random.RandomState:
    """The random numbers of a thread."""
    if not hasattr(_threads, "rng"):
        _threads.rng = np.random.RandomState()
    return _threads.rng


def decode(path: str) -> np.ndarray:
    """A picture as SPDL decodes it."""
    import spdl.io

    return spdl.io.to_numpy(spdl.io.load_image(path))


def with_opencv(decoder: bare.Decode, path: str) -> np.ndarray:
    """The bare loop's calls."""
    return bare.load(decoder, generator(), path)


def with_ffmpeg(path: str) -> np.ndarray:
    """Decoded, cut out, resized and mirrored by SPDL, coloured as in the bare loop."""
    import spdl.io

    rng = generator()
    x, y, w, h = bare.rectangle(HEIGHT, WIDTH, rng)
    mirrored = "hflip," if rng.uniform() < 0.5 else ""
    scaled = f"scale={SIZE}:{SIZE}:flags=bilinear"
    filters = f"crop={w}:{h}:{x}:{y}:exact=1,{scaled},{mirrored}format=pix_fmts=rgb24"
    image = spdl.io.to_numpy(spdl.io.load_image(path, filter_desc=filters))
    for number in rng.permutation(len(bare.COLOURS)):
        image = bare.COLOURS[number](image, rng)
    return bare.normalised(image)


def pipeline(folder: str, load: Callable[[str], np.ndarray]) -> Run:
    """Two threads that load, and one that delivers the batches."""
    from spdl.pipeline import PipelineBuilder

    one_thread()
    names = paths(folder, COUNT)

    def load_batch(some: list[str]) -> np.ndarray:
        batch = np.empty((BATCH, SIZE, SIZE, 3), np.float32)
        for row, path in enumerate(some):
            batch[row] = load(path)
        return batch

    def start() -> Iterator[Any]:
        builder = PipelineBuilder().add_source(names).aggregate(BATCH)
        built = builder.pipe(load_batch, concurrency=2).add_sink(2).build(num_threads=2)
        with built.auto_stop():
            yield from built

    return passes(start)


def opencv(folder: str) -> Run:
    """The bare loop's calls."""
    return pipeline(folder, partial(with_opencv, bare.decode))


def opencv_halved(folder: str) -> Run:
    """The bare loop's calls, decoding at half the height and width."""
    return pipeline(folder, partial(with_opencv, bare.decode_halved))


def ffmpeg(folder: str) -> Run:
    """Its own decoder and filters."""
    decode(paths(folder, 1)[0])  # FFmpeg's libraries are the system's, and may not be there
    return pipeline(folder, with_ffmpeg)
