"""Pictures with fine detail, large and small: stripes, words and shapes that are drawn here, or files."""

import string

import cv2
import numpy as np
from drawn_images import background

from towerpack_dataflow import (
    AugmentImageComponent,
    BatchData,
    DataFromList,
    DatasetError,
    MapData,
    MultiProcessRunner,
)
from towerpack_dataflow.augment import CenterCrop, Flip, ImageFromFile, RandomCrop, Transpose

SHOWN = 96  # height and width of the pictures that are drawn, and of those that are held out
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".webp")


def colour(rng):
    """Returns a colour, RGB."""
    return [int(part) for part in rng.integers(0, 256, 3)]


def stripes(picture, rng):
    """Paints stripes over a part of a picture."""
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    angle, period = rng.uniform(0, np.pi), rng.uniform(5, 16)
    wave = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / period + rng.uniform(0, 6))
    top, left = rng.integers(0, SHOWN // 2, 2)
    place = (slice(top, top + SHOWN // 2), slice(left, left + SHOWN // 2))
    share = (0.5 + 0.5 * np.clip(3 * wave, -1, 1))[place][..., None]
    picture[place] = (1 - share) * picture[place] + share * colour(rng)


def word(picture, rng):
    """Writes some letters."""
    text = "".join(rng.choice(list(string.ascii_letters), 7))
    place, scale = (int(rng.integers(-8, SHOWN // 3)), int(rng.integers(10, SHOWN))), rng.uniform(0.4, 1.2)
    ink, thick = colour(rng), int(rng.integers(1, 3))
    cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, ink, thick, cv2.LINE_AA)


def polygon(picture, rng):
    """Paints a shape with corners."""
    corners = rng.integers(0, SHOWN, 2) + rng.integers(-24, 25, (rng.integers(3, 6), 2))
    cv2.fillPoly(picture, [corners.astype(np.int32)], colour(rng), cv2.LINE_AA)


def draw_picture(rng):
    """Returns a picture with stripes, shapes and words on a smooth background: uint8 [SHOWN, SHOWN, 3]."""
    picture = background((SHOWN, SHOWN), rng)
    for paint in (stripes, polygon, polygon, polygon, word, word):
        paint(picture, rng)
    return picture


class WithSmall:
    """Adds a picture reduced by a factor, with means of pixels, before the original."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, datapoint):
        (picture,) = datapoint
        shape = picture.shape[1] // self.factor, picture.shape[0] // self.factor
        return [cv2.resize(picture, shape, interpolation=cv2.INTER_AREA), picture]


def read_pictures(folder):
    """Returns flows of the pictures in a folder and those below, each tenth of which is held out.

    Raises:
        DatasetError: there are not two pictures.
    """
    files = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if len(files) < 2:
        kinds = ", ".join(SUFFIXES)
        raise DatasetError(f"{folder}: expected two pictures at least ({kinds}); found {len(files)}")
    others = [file for number, file in enumerate(files) if number % 10]
    return ImageFromFile(others, shuffle=True), ImageFromFile(files[::10])


def make_flows(folder, factor, batch, workers):
    """Creates the flows of batches of small and large pictures for training and evaluation.

    Args:
        folder: of pictures, `SHOWN` pixels high and wide at least; they are drawn if None.
        factor: the ratio of their sizes in each direction.
        batch: pictures of a batch; those to train on are parts, half as high and wide.
        workers: processes that read and crop.
    """
    if folder is None:
        rng = np.random.default_rng(0)
        drawn = [[draw_picture(rng)] for _ in range(480)]
        training, test = DataFromList(drawn[80:], shuffle=True), DataFromList(drawn[:80], shuffle=False)
    else:
        training, test = read_pictures(folder)
    augmentors = [RandomCrop(SHOWN // 2), Flip(horiz=True), Flip(vert=True), Transpose()]
    training = MapData(AugmentImageComponent(training, augmentors), WithSmall(factor))
    test = MapData(AugmentImageComponent(test, CenterCrop(SHOWN)), WithSmall(factor))
    return MultiProcessRunner(BatchData(training, batch), workers), BatchData(test, batch, remainder=True)
