"""Pictures of a run: `<log_dir>/images/<name>/<global_step>.png`.

PNG needs only zlib, which is part of Python, so no other library is needed.
"""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np

from ._atomic_write import atomic_write

__all__ = ["PNG_CHANNELS", "cut_pictures_after", "encode_png", "find_pictures", "write_picture"]

_FOLDER = "images"
_FILE = re.compile(r"(\d+)\.png")
# PNG's colour type by number of channels: grey, grey with alpha, RGB, RGBA.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
PNG_CHANNELS = frozenset(_COLOUR_TYPES)


def encode_png(image: np.ndarray) -> bytes:
    """Encodes an image as a PNG.

    Args:
        image: uint8 of shape [height, width, channels], with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels.
    """
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row starts with its filter type: 0 for no filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_picture(log_dir: Path, name: str, global_step: int, image: np.ndarray) -> Path:
    """Writes the picture of a step atomically, and returns its path.

    Args:
        log_dir: the run's directory.
        name: name of the series of pictures and of its folder.
        global_step: the number of finished steps.
        image: the image, as in `encode_png`.

    Raises:
        OSError: the file cannot be written.
    """
    path = log_dir / _FOLDER / name / f"{global_step:08d}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        aside.write_bytes(encode_png(image))
    return path


def find_pictures(log_dir: Path) -> dict[str, list[tuple[int, Path]]]:
    """Returns steps and paths of the pictures in a run's directory, by name of the series."""
    folders = (log_dir / _FOLDER).glob("*/")
    found = {folder.name: _pictures_in(folder) for folder in sorted(folders)}
    return {name: pictures for name, pictures in found.items() if pictures}


def cut_pictures_after(log_dir: Path, name: str, last_step: int) -> None:
    """Removes the pictures of steps after a checkpoint, since those steps will run again."""
    for step, path in _pictures_in(log_dir / _FOLDER / name):
        if step > last_step:
            path.unlink()


def _pictures_in(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_file())
