"""Pairs of pictures with the motion from the first to the second: generated, or read from files."""

import cv2
import numpy as np
from motion_files import read_flo

from towerpack_dataflow import (
    AugmentImageComponents,
    BatchData,
    CacheData,
    DataFromList,
    DatasetError,
    FormatError,
    MapData,
    MultiProcessRunner,
)
from towerpack_dataflow.augment import Brightness, Contrast, read_image

FARTHEST = 8  # maximum motion of the centre of a shape in each direction, in pixels
DRAWN = 8  # pixels drawn on each side in addition to the shown ones


def texture(size, rng):
    """Returns a picture of spots of three sizes with smooth transitions of colours: uint8."""
    layers = []
    for cell, strength in ((24, 60), (8, 45), (3, 30)):
        spots = rng.normal(0, strength, (size // cell + 2, size // cell + 2, 3)).astype(np.float32)
        layers.append(cv2.resize(spots, (size, size), interpolation=cv2.INTER_CUBIC))
    return np.clip(rng.uniform(60, 200, 3) + sum(layers), 0, 255).astype(np.uint8)


def random_motion(middle, farthest, rng):
    """Returns an affine map, float64 [2, 3], that rotates, scales and shifts points around a centre."""
    turn, scale = rng.normal(0, 0.06), np.exp(rng.normal(0, 0.04))
    linear = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return np.column_stack([linear, middle - linear @ middle + rng.uniform(-farthest, farthest, 2)])


def blob(size, rng):
    """Returns the pixels of a shape with corners at a random place, uint8 from 0 to 1, and its middle."""
    radius, corners = rng.uniform(0.12, 0.25) * size, rng.integers(3, 12)
    middle = rng.uniform(radius, size - radius, 2)
    angles = 2 * np.pi * (np.arange(corners) + rng.uniform(0, 0.8, corners)) / corners
    outline = middle + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
    pixels = np.zeros((size, size), np.uint8)
    cv2.fillPoly(pixels, [np.round(outline).astype(np.int32)], 1)
    return pixels, middle


def moved_pair(shown, rng):
    """Draws a background and some shapes, each with a different motion.

    Args:
        shown: height and width, in pixels.
        rng: the source of all random numbers.

    Returns:
        [first, second, motion]: uint8 [shown, shown, 3] twice, and float32 [shown, shown, 2], the motion of
        each pixel of the first picture to the right and down.
    """
    size = shown + 2 * DRAWN
    y, x = np.mgrid[:size, :size].astype(np.float32)
    everything = np.ones((size, size), np.uint8), np.full(2, size / 2)
    shapes = [everything, *(blob(size, rng) for _ in range(rng.integers(2, 5)))]
    first, second = np.zeros((2, size, size, 3), np.uint8)
    motion = np.zeros((size, size, 2), np.float32)
    for number, (pixels, middle) in enumerate(shapes):
        paint, linear = texture(size, rng), random_motion(middle, FARTHEST if number else FARTHEST / 2, rng)
        moved = cv2.warpAffine(paint, linear, (size, size), borderMode=cv2.BORDER_REFLECT)
        border = cv2.BORDER_CONSTANT if number else cv2.BORDER_REPLICATE  # the background fills the picture
        moved_pixels = cv2.warpAffine(
            pixels, linear, (size, size), flags=cv2.INTER_NEAREST, borderMode=border
        )
        first[pixels > 0], second[moved_pixels > 0] = paint[pixels > 0], moved[moved_pixels > 0]
        places = np.stack([x, y, np.ones_like(x)], 2) @ linear.T
        motion[pixels > 0] = (places[..., :2] - np.stack([x, y], 2))[pixels > 0]
    inside = slice(DRAWN, -DRAWN)
    return [np.ascontiguousarray(part[inside, inside]) for part in (first, second, motion)]


class DrawPair:
    """Draws a pair: different ones in each epoch, the same ones for the same seed."""

    def __init__(self, shown):
        self.shown = shown

    def __call__(self, datapoint, rng):
        return moved_pair(self.shown, rng)


class ReadPair:
    """Reads a pair, and crops both pictures and the motion at the same position."""

    def __init__(self, shown):
        self.shown = shown

    def __call__(self, datapoint, rng):
        names, shown = datapoint[0], self.shown
        parts = [read_image(names[0]), read_image(names[1]), read_flo(names[2])]
        height, width = parts[2].shape[:2]
        if any(part.shape[:2] != (height, width) for part in parts) or min(height, width) < shown:
            sizes = ", ".join(f"{part.shape[0]} x {part.shape[1]}" for part in parts)
            raise FormatError(
                f"{names[2]}: both pictures and the motion have one size, {shown} x {shown} at least; "
                f"received {sizes}"
            )
        top, left = rng.integers(height - shown + 1), rng.integers(width - shown + 1)
        return [part[top : top + shown, left : left + shown] for part in parts]


def find_pairs(folder):
    """Returns the names of files in a folder of FlyingChairs: NAME_img1, NAME_img2, NAME_flow.flo.

    Raises:
        DatasetError: the folder has no such files, or a picture is missing.
    """
    found = []
    for motion in sorted(folder.glob("*_flow.flo")):
        name = motion.name.removesuffix("_flow.flo")
        pictures = [next(iter(sorted(folder.glob(f"{name}_img{part}.*"))), None) for part in (1, 2)]
        if None in pictures:
            raise DatasetError(f"{motion}: {name}_img1 and {name}_img2 are to lie beside it, as .ppm or .png")
        found.append([[str(path) for path in (*pictures, motion)]])
    if len(found) < 2:
        raise DatasetError(
            f"{folder}: expected two files NAME_flow.flo at least, with pictures; found {len(found)}"
        )
    return found


def make_flows(folder, shown, epoch, batch, workers):
    """Creates the flows of batches for training and evaluation.

    Args:
        folder: of files, each tenth pair of which is held out; pairs are drawn if None.
        shown: height and width, in pixels.
        epoch: pairs of an epoch, if they are drawn.
        batch: pairs of a batch.
        workers: processes that draw or read.
    """
    if folder is None:
        numbers = [DataFromList([[n] for n in range(count)]) for count in (epoch, 160)]
        training, test = (MapData(flow, DrawPair(shown), rng=True) for flow in numbers)
    else:
        pairs = find_pairs(folder)
        held_out, others = pairs[::10], [pair for number, pair in enumerate(pairs) if number % 10]
        training = MapData(DataFromList(others), ReadPair(shown), rng=True)
        test = MapData(DataFromList(held_out, shuffle=False), ReadPair(shown), rng=True)
    training = AugmentImageComponents(training, [Brightness(25), Contrast((0.8, 1.2))], index=(0, 1))
    test = BatchData(test, batch, remainder=True)
    test.seed(1234)  # the same pairs for every training
    return MultiProcessRunner(BatchData(training, batch), workers), CacheData(test)
