"""Motion of pixels as a picture: its direction is the colour, its length the strength of the colour.

The wheel is that of the Middlebury benchmark, which gives more space to colours that are easier to
distinguish: red is right, yellow lower right, green lower left, blue upper left.
"""

import numpy as np
from motion_files import checked

# Each colour of the wheel, and the number of steps to the next one; the last one precedes the first.
WHEEL = [
    ((255, 0, 0), 15),
    ((255, 255, 0), 6),
    ((0, 255, 0), 4),
    ((0, 255, 255), 11),
    ((0, 0, 255), 13),
    ((255, 0, 255), 6),
]
UNKNOWN = 1e9


def motion_picture(motion, largest=None):
    """Returns a picture of the motion of pixels: uint8 [height, width, 3], RGB; white where nothing moves.

    Args:
        motion: numbers, shape [height, width, 2], to the right and down, in pixels; NaN and values above
            1e9 are unknown, and black.
        largest: the length with the full colour; longer motion is darker. The default is the longest motion.

    Raises:
        ValueError: `motion` has another shape, or `largest` is not above 0.
    """
    motion = checked(motion).astype(np.float64)
    if largest is not None and not largest > 0:
        raise ValueError(f"largest is a length above 0, in pixels; received {largest!r}")
    known = np.all(np.abs(motion) < UNKNOWN, axis=2)
    motion = np.where(known[..., None], motion, 0)
    lengths = np.linalg.norm(motion, axis=2)
    share = (lengths / (largest or max(lengths.max(), 1e-9)))[..., None]
    colours = on_wheel(np.arctan2(motion[..., 1], motion[..., 0]))
    picture = np.where(share <= 1, 255 - share * (255 - colours), 0.75 * colours)
    return (picture * known[..., None]).round().astype(np.uint8)


def on_wheel(angles):
    """Returns the full colours of directions: float, the shape of `angles` and 3, from 0 to 255.

    Args:
        angles: clockwise from the right, in radians.
    """
    colours, steps = np.array([colour for colour, _ in WHEEL]), [count for _, count in WHEEL]
    places = np.cumsum([0, *steps[:-1]])
    wanted = angles / (2 * np.pi) % 1 * sum(steps)
    return np.stack([np.interp(wanted, places, part, period=sum(steps)) for part in colours.T], -1)


def wheel_picture(radius):
    """Returns a picture of the wheel: uint8 [2 * radius + 1, 2 * radius + 1, 3], white around it.

    Raises:
        ValueError: `radius` is less than 1.
    """
    if radius < 1:
        raise ValueError(f"radius is 1 pixel at least; received {radius!r}")
    line = np.arange(-radius, radius + 1)
    motion = np.stack(np.meshgrid(line, line), 2)
    picture = motion_picture(motion, radius)
    picture[np.linalg.norm(motion, axis=2) > radius] = 255
    return picture
