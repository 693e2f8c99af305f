"""Lines of handwritten digits, as strips of different widths, in an LMDB file for each split.

    python handwritten_lines.py FOLDER       write train.lmdb, test.lmdb and moments.npz into FOLDER

The digits are those of scikit-learn. Each has a random vertical offset and a
random distance or overlap to the previous one. Training and held-out lines have no digit image in common.
"""

import argparse
from pathlib import Path
from typing import Literal

import numpy as np

from towerpack_dataflow import (
    BucketData,
    DataFromList,
    LMDBSerializer,
    MapData,
    OnlineMoments,
    PadBatchData,
)
from towerpack_dataflow.datasets import Digits

HEIGHT = 12  # pixels; digits have 8
LINES: dict[Literal["train", "test"], int] = {"train": 4000, "test": 500}


def draw_line(digits, rng):
    """Puts 3 to 8 digits side by side.

    Args:
        digits: images, float32 from 0 to 1 of shape (8, 8), with their labels.
        rng: draws the digits and their positions.

    Returns:
        The strip, uint8 of shape (width, `HEIGHT`), column by column; and the labels, int32.
    """
    chosen = [digits[number] for number in rng.integers(len(digits), size=rng.integers(3, 9))]
    gaps = rng.integers(-2, 4, size=len(chosen))
    gaps[0] = rng.integers(0, 4)
    starts = np.cumsum(gaps) + 8 * np.arange(len(chosen))
    strip = np.zeros((starts[-1] + 8 + rng.integers(4), HEIGHT), np.float32)
    for (image, _), start in zip(chosen, starts):
        top = rng.integers(HEIGHT - 8 + 1)
        place = strip[start : start + 8, top : top + 8]
        np.maximum(place, image.T, out=place)
    return [np.round(255 * strip).astype(np.uint8), np.array([label for _, label in chosen], np.int32)]


def write_lines(folder, seed=0):
    """Draws the lines of both splits, and writes them with the moments of the pixels in each row."""
    moments = OnlineMoments()
    for number, (split, count) in enumerate(LINES.items()):
        digits, rng = list(Digits(split, shuffle=False)), np.random.default_rng([seed, number])
        lines = [draw_line(digits, rng) for _ in range(count)]
        LMDBSerializer.save(DataFromList(lines, shuffle=False), folder / f"{split}.lmdb")
        if split == "train":
            for strip, _ in lines:
                for column in strip:
                    moments.feed(column)
    np.savez(folder / "moments.npz", mean=moments.mean, std=moments.std)


def read_lines(folder, split):
    """Reads lines in order: the strip, float32 with mean 0 and variance 1; its width; and the labels."""
    moments = np.load(folder / "moments.npz")
    mean, std = moments["mean"], np.maximum(moments["std"], 1)

    def normalise(line):
        strip, labels = line
        return [((strip - mean) / std).astype(np.float32), np.int32(len(strip)), labels]

    return MapData(LMDBSerializer.load(folder / f"{split}.lmdb", shuffle=False), normalise)


def padded(lines):
    """Creates a batch of lines: strips are padded with zeros, and labels with -1."""
    strips, widths, labels = zip(*lines)
    return [stacked(strips, 0), np.array(widths), stacked(labels, -1)]


def stacked(arrays, value):
    """Stacks arrays of different lengths, padded with a value."""
    stack = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, array in zip(stack, arrays):
        row[: len(array)] = array
    return stack


def make_flows(folder, batch=32):
    """Creates the flows for training, with lines of similar width in each batch, and for evaluation."""
    lines = read_lines(folder, "train")
    widths = [int(width) for _, width, _ in lines]
    boundaries = sorted({int(bound) for bound in np.quantile(widths, [0.2, 0.4, 0.6, 0.8])})
    flow = BucketData(lines, widths, boundaries, batch, collate=padded)
    return flow, PadBatchData(read_lines(folder, "test"), 100, remainder=True, values={2: -1})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder)
    print(f"{' and '.join(f'{count} lines in {split}.lmdb' for split, count in LINES.items())} of {folder}")
