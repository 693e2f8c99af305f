"""Motion of pixels in files: the format `.flo` of the Middlebury benchmark, which other data sets have, too.

A file is the number 202021.25 as float32, width and height as int32, and then, row by row, the motion of each
pixel to the right and down, as float32; all little-endian. Numbers above 1e9 mean unknown motion. After Baker
et al., "A Database and Evaluation Methodology for Optical Flow" (2011), doi:10.1007/s11263-010-0390-2.
"""

from pathlib import Path

import numpy as np

from towerpack_dataflow import FormatError

MAGIC = np.float32(202021.25)
LARGEST_SIDE = 99_999


def read_flo(path):
    """Returns the motion of pixels: float32 [height, width, 2], to the right and down.

    Raises:
        FormatError: the file has another format, or is truncated.
    """
    content = Path(path).read_bytes()
    if len(content) < 12 or np.frombuffer(content, "<f4", 1)[0] != MAGIC:
        raise FormatError(
            f"{path}: a .flo file begins with the number {MAGIC} as float32; received {content[:4]!r}"
        )
    width, height = (int(side) for side in np.frombuffer(content, "<i4", 2, 4))
    if not (0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE):
        raise FormatError(
            f"{path}: width and height are from 1 to {LARGEST_SIDE}; received {width} and {height}"
        )
    expected = 12 + 8 * width * height
    if len(content) != expected:
        raise FormatError(
            f"{path}: a motion of {width} x {height} pixels has {expected} bytes; received {len(content)}"
        )
    return np.frombuffer(content, "<f4", offset=12).reshape(height, width, 2).astype(np.float32)


def write_flo(path, motion):
    """Writes the motion of pixels.

    Args:
        path: of the file.
        motion: numbers, shape [height, width, 2].

    Raises:
        ValueError: `motion` has another shape.
    """
    motion = checked(motion)
    head = MAGIC.astype("<f4").tobytes() + np.array(motion.shape[1::-1], "<i4").tobytes()
    Path(path).write_bytes(head + motion.astype("<f4").tobytes())


def checked(motion):
    """Returns the motion of pixels as an array.

    Raises:
        ValueError: it has another shape than [height, width, 2], or no pixel.
    """
    motion = np.asarray(motion)
    if motion.ndim != 3 or motion.shape[2] != 2 or not motion.size:
        raise ValueError(f"motion has shape [height, width, 2] and some pixel; received shape {motion.shape}")
    return motion
