"""The least there is to do: a loop of the calls that our augmentors make, with their random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import cv2
import numpy as np
from _images_files import paths
from _images_row import AREA, ASPECT, BATCH, COUNT, FACTORS, JITTER, MEAN, SIZE, STD

Decode = Callable[[str], np.ndarray]

LEVELS = np.arange(256, dtype=np.float32)
ROW_OF_MEANS, ROW_OF_SCALES = np.tile(255 * MEAN, SIZE), np.tile(1 / (255 * STD), SIZE)


def decode(path: str) -> np.ndarray:
    """Reads a file and decodes it; RGB."""
    with open(path, "rb", buffering=0) as file:
        return cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_COLOR_RGB)


def decode_halved(path: str) -> np.ndarray:
    """Reads a file and decodes it at half the height and width; RGB."""
    with open(path, "rb", buffering=0) as file:
        image = cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_REDUCED_COLOR_2)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image)


def rectangle(height: int, width: int, rng: np.random.RandomState) -> tuple[int, int, int, int]:
    """The random part of a picture that is cut out: x, y, width, height."""
    for _ in range(10):
        area, aspect = rng.uniform(*AREA) * height * width, rng.uniform(*ASPECT)
        w, h = int(math.sqrt(area * aspect) + 0.5), int(math.sqrt(area / aspect) + 0.5)
        if rng.uniform() < 0.5:
            w, h = h, w
        if h <= height and w <= width:
            return rng.randint(width - w + 1), rng.randint(height - h + 1), w, h
    return 0, 0, width, height


def cut_out(image: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A random part of a picture, resized, and mirrored in half of the cases."""
    x, y, w, h = rectangle(*image.shape[:2], rng)
    image = cv2.resize(image[y : y + h, x : x + w], (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(image, 1) if rng.uniform() < 0.5 else image


def brightness(image: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """All values times a factor."""
    return looked_up(image, LEVELS * np.float32(rng.uniform(*FACTORS)))


def contrast(image: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The distances from the mean of the grey picture times a factor."""
    factor = np.float32(rng.uniform(*FACTORS))
    mean = np.float32(cv2.mean(cv2.cvtColor(image.astype(np.float32), cv2.COLOR_RGB2GRAY))[0])
    return looked_up(image, (LEVELS - mean) * factor + mean)


def saturation(image: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A mixture with the grey picture, with fractions cut off."""
    factor = 1 + rng.uniform(-JITTER, JITTER)
    grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return cv2.addWeighted(image, factor, grey, 1 - factor, -0.499)


def looked_up(image: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Each value replaced by that of its level: clipped, without its fraction."""
    return cv2.LUT(image, np.clip(levels, 0, 255, out=levels).astype(np.uint8))


COLOURS = (brightness, contrast, saturation)


def augmented(image: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The whole recipe for one picture."""
    image = cut_out(image, rng)
    for number in rng.permutation(len(COLOURS)):
        image = COLOURS[number](image, rng)
    return normalised(image)


def normalised(image: np.ndarray) -> np.ndarray:
    """As float32, with the mean and the deviation of ImageNet."""
    values = np.subtract(image.reshape(SIZE, -1), ROW_OF_MEANS, dtype=np.float32)
    values *= ROW_OF_SCALES
    return values.reshape(SIZE, SIZE, 3)


def load(decoder: Decode, rng: np.random.RandomState, path: str) -> np.ndarray:
    """A picture out of a file."""
    return augmented(decoder(path), rng)


def batches(folder: str, decoder: Decode = decode) -> Iterator[np.ndarray]:
    """The loop; each batch is the consumer's own, as those of all loaders are."""
    names, rng = paths(folder, COUNT), np.random.RandomState(0)
    for begin in range(0, COUNT, BATCH):
        batch = np.empty((BATCH, SIZE, SIZE, 3), np.float32)
        for row in range(BATCH):
            batch[row] = load(decoder, rng, names[begin + row])
        yield batch
