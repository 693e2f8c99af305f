"""The pictures that `images.py` reads: photographs as JPEG files, and others as small as those of CIFAR."""

from __future__ import annotations

from pathlib import Path

import _rounds
import numpy as np
from _loaders import jpegs

FILES = _rounds.shorter(400, 16)
HEIGHT, WIDTH = 375, 500
SMALL = 32  # height and width of the others
CLASSES = 10


def write_files(folder: Path) -> None:
    """Writes each picture to a separate file."""
    for number, file in enumerate(jpegs(FILES)):
        (folder / f"{number:04}.jpg").write_bytes(file)


def paths(folder: str, count: int) -> list[str]:
    """The files, repeated up to the given number."""
    names = sorted(map(str, Path(folder).iterdir()))
    return (names * (count // len(names) + 1))[:count]


def reference(path: str) -> np.ndarray:
    """A picture as Pillow decodes it: the exact transform, and chroma interpolated."""
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def reference_halved(path: str) -> np.ndarray:
    """A picture of half the height and width, of which each pixel is the mean of four."""
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB").reduce(2))


def small_pictures(folder: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuttings of the photographs, uint8 of shape [count, 32, 32, 3], and labels that mean nothing."""
    rng = np.random.default_rng(0)
    whole = [reference(path) for path in paths(folder, 16)]
    images = np.empty((count, SMALL, SMALL, 3), np.uint8)
    for number in range(count):
        top, left = rng.integers(HEIGHT - SMALL), rng.integers(WIDTH - SMALL)
        images[number] = whole[number % len(whole)][top : top + SMALL, left : left + SMALL]
    return images, rng.integers(0, CLASSES, count).astype(np.int32)
