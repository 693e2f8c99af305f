"""One channel as colours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._errors import ArgumentError
from ._libraries import pyplot

__all__ = ["intensity_to_rgb"]


def intensity_to_rgb(
    intensity: npt.ArrayLike, colormap: str = "cubehelix", normalize: bool = False
) -> npt.NDArray[np.float32]:
    """Returns the values of one channel as colours, such as a saliency map.

    Args:
        intensity: shape [height, width], from 0 to 1; smaller values count as 0, larger ones as 1.
        colormap: name of a matplotlib colormap.
        normalize: whether to map the smallest value to 0 and the largest to 1.

    Returns:
        float32 of shape [height, width, 3], from 0 to 255, RGB.

    Raises:
        ArgumentError: `intensity` has another shape or contains NaN, or matplotlib has no such colormap.
        ImportError: matplotlib is not installed.
    """
    values = np.asarray(intensity)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise ArgumentError(
            f"intensity is an array of numbers of shape [height, width]; "
            f"received shape {values.shape} of {values.dtype}"
        )
    values = values.astype(np.float64)
    if np.isnan(values).any():
        raise ArgumentError(f"intensity has {int(np.isnan(values).sum())} values that are NaN")
    if normalize:
        spread = values.max() - values.min()
        values = (values - values.min()) / spread if spread else np.zeros_like(values)
    try:
        mapped = pyplot().get_cmap(colormap)(values)
    except ValueError as error:
        raise ArgumentError(f"colormap={colormap!r}: {error}") from error
    colors: npt.NDArray[np.float32] = (mapped[:, :, :3] * 255).astype(np.float32)
    return colors
