"""Small coloured pictures, from -1 to 1: of digits, which are made here, or from folders of files."""

import argparse
from pathlib import Path
from typing import Any, Literal

import numpy as np
from digits import digit_arrays
from PIL import Image, UnidentifiedImageError

from towerpack_dataflow import DataFlow, DataFromArrays, DataFromList, MapData

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
HELD_OUT, MOST_HELD_OUT = "held_out.npz", 360


def picture_options(data: str, size: int) -> argparse.ArgumentParser:
    """Returns a command line with the folder of pictures and their size.

    Args:
        data: the required content of the folder, for `--help`.
        size: pixels of a side, unless the command line has another number.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help=f"{data}; pictures of digits if not given")
    parser.add_argument("--size", type=int, default=size, help=f"pixels of a side, a multiple of 4; {size}")
    return parser


def digit_pictures(split: Literal["train", "test"], size: int) -> np.ndarray:
    """Returns the handwritten digits as pictures of shape [n, size, size, 3]."""
    images, _ = digit_arrays(split)
    bilinear = Image.Resampling.BILINEAR
    enlarged = [np.asarray(Image.fromarray(image[..., 0]).resize((size, size), bilinear)) for image in images]
    return np.repeat(np.stack(enlarged)[..., None], 3, -1)


def picture_source(pictures: np.ndarray | list[Path], shape: tuple[int, int]) -> DataFlow:
    """Returns a flow of single pictures in random order; files are read when it is their turn.

    Args:
        pictures: an array of pictures, or their files.
        shape: height and width of pictures from files.
    """
    if isinstance(pictures, np.ndarray):
        return DataFromArrays([pictures], shuffle=True)
    files = DataFromList([[path] for path in pictures], shuffle=True)
    return MapData(files, lambda datapoint: [read_picture(datapoint[0], shape)])


def find_pictures(folder: Path) -> list[Path]:
    """Returns the files of the pictures in a folder and in the folders in it, in the order of their names.

    Raises:
        SystemExit: there are none.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        there = "no such folder" if not folder.is_dir() else "the folder has none"
        raise SystemExit(f"No pictures in {folder} ({there}). Expected files {', '.join(sorted(ENDINGS))}.")
    return files


def read_picture(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Reads a file as a picture of a height and width.

    Raises:
        ValueError: the file is no picture.
    """
    try:
        with Image.open(path) as image:
            pixels = image.convert("RGB").resize((shape[1], shape[0]), Image.Resampling.BOX)
    except UnidentifiedImageError as error:
        raise ValueError(f"Pillow cannot read the picture {path}. Remove or replace it.") from error
    return np.asarray(pixels, np.float32) / 127.5 - 1


def read_pictures(files: list[Path], shape: tuple[int, int]) -> np.ndarray:
    """Reads as many files as an evaluation needs."""
    return np.stack([read_picture(path, shape) for path in files[:MOST_HELD_OUT]])


def keep_held_out(log_dir: Path, **pictures: Any) -> None:
    """Writes the reference pictures of the evaluation next to the checkpoints."""
    log_dir.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(log_dir / HELD_OUT, **pictures)


def held_out(log_dir: Path) -> dict[str, np.ndarray]:
    """Returns the pictures that `keep_held_out` has written."""
    with np.load(log_dir / HELD_OUT) as arrays:
        return dict(arrays)
