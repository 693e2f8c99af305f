"""Tensorpack's photometric augmentors, reimplemented in NumPy in double precision.

`python formulas.py` writes `pictures.npz` once; an existing file is never rewritten.
"""

from pathlib import Path

import numpy as np

SEED = 7
IMAGE = np.random.RandomState(1).randint(0, 256, (9, 7, 3)).astype(np.uint8)
AXES = np.array([[0.4, 0.5, -0.6], [-0.7, 0.1, 0.3], [0.2, -0.8, 0.5]])
STRENGTHS = np.array([0.2, 0.5, 1])
PICTURES = Path(__file__).parent / "pictures.npz"

# Kernels of OpenCV for windows of 1, 3 and 5 pixels, where no deviation is given.
KERNELS = {1: [1.0], 3: [0.25, 0.5, 0.25], 5: [0.0625, 0.25, 0.375, 0.25, 0.0625]}


def grey(x, weights=(0.299, 0.587, 0.114)):
    return x @ np.array(weights)


def contrast(x, rng, mean):
    return (x - mean) * rng.uniform(0.5, 1.5) + mean


def saturation(x, rng):
    v = 1 + rng.uniform(-0.4, 0.4)
    return x * v + grey(x)[..., None] * (1 - v)


def blur(x, rng):
    size = int(rng.randint(0, 3, size=(2,))[0]) * 2 + 1
    kernel, half = np.array(KERNELS[size]), size // 2
    for axis in (0, 1):
        margin = [(half, half) if other == axis else (0, 0) for other in range(3)]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, margin, mode="edge"), size, axis)
        x = windows @ kernel
    return x


def hue(x, rng, cut=lambda hues: hues, whole=lambda hues: hues):
    """Turns the hue of each pixel, in steps of two degrees, on its way through HSV and back."""
    high, low = x.max(-1), x.min(-1)
    spread = np.where(high > low, high - low, 1)
    r, g, b = np.moveaxis(x, -1, 0)
    sextant = np.select(
        [high == r, high == g], [(g - b) / spread, 2 + (b - r) / spread], 4 + (r - g) / spread
    )
    turned = cut((whole(sextant * 30 % 180) + rng.uniform(0, 180)) % 180) / 30
    share = [np.clip(abs(turned - 3) - 1, 0, 1), *(np.clip(2 - abs(turned - k), 0, 1) for k in (2, 4))]
    return np.stack([low + each * (high - low) for each in share], -1)


def salt_and_pepper(x, rng):
    drawn = rng.uniform(0, 1, x.shape)
    return np.where(drawn < 0.05, 0, np.where(drawn > 0.95, 255, x))


def mean_variance(x, axes=None):
    deviation = np.maximum(x.std(axes, keepdims=True), 1 / np.sqrt(x.size))
    return (x - x.mean(axes, keepdims=True)) / deviation


def min_max(x):
    return (x - x.min()) / (x.max() - x.min()) * 255


# Functions of a float64 image and a RandomState.
FORMULAS = {
    "Brightness": lambda x, rng: x + rng.uniform(-50, 50),
    "BrightnessScale": lambda x, rng: x * rng.uniform(0.5, 1.5),
    "Contrast": lambda x, rng: contrast(x, rng, x.mean((0, 1))),
    "Contrast of grey": lambda x, rng: contrast(x, rng, grey(x).mean()),
    "Gamma": lambda x, rng: (x / 255) ** (1 / (1 + rng.uniform(-0.5, 0.5))) * 255,
    "GaussianBlur": blur,
    "GaussianNoise": lambda x, rng: x + rng.randn(*x.shape) * 20,
    "Grayscale": lambda x, rng: grey(x, (0.114, 0.587, 0.299))[..., None],
    "Hue": hue,
    "Lighting": lambda x, rng: x + AXES @ (rng.randn(3) * 30 * STRENGTHS),
    "SaltPepperNoise": salt_and_pepper,
    "Saturation": saturation,
}
# Hues of uint8 are integers.
OF_UINT8 = {"Hue": lambda x, rng: hue(x, rng, np.floor, np.round)}
# These give float32, from any image.
NORMALISED = {
    "MeanVarianceNormalize": lambda x, rng: mean_variance(x),
    "MeanVarianceNormalize of channels": lambda x, rng: mean_variance(x, (0, 1)),
    "MinMaxNormalize": lambda x, rng: min_max(x),
}
# OpenCV rounds these; all others cut fractions off.
ROUNDED = {"GaussianBlur", "Grayscale", "Hue"}


def expected(name, dtype):
    """Returns the result of an augmentor for `IMAGE` in a dtype."""
    rng = np.random.RandomState(SEED)
    if name in NORMALISED:
        return NORMALISED[name](IMAGE.astype(np.float64), rng).astype(np.float32)
    formula = OF_UINT8.get(name, FORMULAS[name]) if dtype == np.uint8 else FORMULAS[name]
    values = np.clip(formula(IMAGE.astype(np.float64), rng), 0, 255)
    if dtype == np.uint8 and name in ROUNDED:
        values = np.round(values)
    return values.astype(dtype)


def pictures():
    """Returns all pictures, by the names that they have in the file."""
    return {
        f"{name}, {dtype.__name__}": expected(name, dtype)
        for name in [*FORMULAS, *NORMALISED]
        for dtype in (np.uint8, np.float32)
    }


if __name__ == "__main__":
    with PICTURES.open("xb") as file:  # "x": never over another
        np.savez_compressed(file, **pictures())
