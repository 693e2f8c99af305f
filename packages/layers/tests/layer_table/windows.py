"""Windows over images in NumPy, which the references of convolutions and pools are made of.

Images are `[N, H, W, C]`, and padding is TensorFlow's: with `same`, the odd row is added at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Pair = tuple[int, int]
Arrays = Mapping[str, np.ndarray]


def pair(value: int | Pair) -> Pair:
    """A size over height and width, given as one number or two."""
    return (value, value) if isinstance(value, int) else value


def pad(x: np.ndarray, size: Pair, steps: Pair, padding: str, dilations: Pair, value: float) -> np.ndarray:
    """Images with the rows and columns that a padding adds."""
    around = [(0, 0)]
    for have, taps, step, dilation in zip(x.shape[1:3], size, steps, dilations, strict=True):
        lacking = (-(-have // step) - 1) * step + (taps - 1) * dilation + 1 - have
        total = max(lacking, 0) if padding == "same" else 0
        around.append((total // 2, total - total // 2))
    return np.pad(x, [*around, (0, 0)], constant_values=value)


def windows(
    x: np.ndarray,
    size: int | Pair,
    strides: int | Pair = 1,
    padding: str = "same",
    dilation_rate: int | Pair = 1,
    value: float = 0.0,
) -> np.ndarray:
    """The elements of a window at each position: `[N, H', W', height, width, C]`."""
    size, steps, dilations = pair(size), pair(strides), pair(dilation_rate)
    x = pad(x, size, steps, padding, dilations, value)
    rows, columns = (
        (have - (taps - 1) * dilation - 1) // step + 1
        for have, taps, step, dilation in zip(x.shape[1:3], size, steps, dilations, strict=True)
    )
    taps = [
        [
            x[:, i * dilations[0] :, j * dilations[1] :][:, :: steps[0], :: steps[1]][:, :rows, :columns]
            for j in range(size[1])
        ]
        for i in range(size[0])
    ]
    return np.moveaxis(np.array(taps), [0, 1], [3, 4])


def convolve(x: np.ndarray, kernel: np.ndarray, split: int = 1, **window: Any) -> np.ndarray:
    """Convolution with a kernel `[height, width, channels / split, filters]`."""
    seen = windows(x, kernel.shape[:2], **window)
    groups = zip(np.split(seen, split, -1), np.split(kernel, split, -1), strict=True)
    return np.concatenate([np.einsum("nhwijc,ijco->nhwo", part, own) for part, own in groups], -1)


def convolve_depthwise(x: np.ndarray, kernel: np.ndarray, **window: Any) -> np.ndarray:
    """Convolution of each channel with separate kernels, `[height, width, channels, times]`."""
    out = np.einsum("nhwijc,ijcm->nhwcm", windows(x, kernel.shape[:2], **window), kernel)
    return out.reshape(*out.shape[:3], kernel.shape[2] * kernel.shape[3])


def convolve_transposed(
    x: np.ndarray, kernel: np.ndarray, strides: int | Pair = 1, padding: str = "same"
) -> np.ndarray:
    """Transposed convolution with a kernel `[height, width, filters, channels]`: each pixel adds a patch."""
    (n, height, width, _), (rows, columns, filters, _) = x.shape, kernel.shape
    down, across = pair(strides)
    more = max(rows - down, 0), max(columns - across, 0)
    out = np.zeros([n, height * down + more[0], width * across + more[1], filters])
    for i in range(rows):
        for j in range(columns):
            patch = np.einsum("nhwc,oc->nhwo", x, kernel[i, j])
            out[:, i : i + height * down : down, j : j + width * across : across][:, :height, :width] += patch
    if padding == "valid":
        return out
    top, left = more[0] // 2, more[1] // 2
    return out[:, top : top + height * down, left : left + width * across]
