"""The distance of two arrays in units in the last place, and the error of failed checks."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["ConformanceError", "expect", "expect_near", "ulp_distance"]


class ConformanceError(AssertionError):
    """A layer violates an expectation; the message names the check, the expected and the received result."""


def expect(condition: bool, message: str) -> None:
    """Checks an expectation.

    Raises:
        ConformanceError: the condition does not hold.
    """
    if not condition:
        raise ConformanceError(f"{message}.")


def ulp_distance(received: np.ndarray, expected: np.ndarray, dtype: tf.DType, scale: float = 0.0) -> float:
    """Returns the largest difference of two arrays, in ulp of the largest expected magnitude.

    Here, an ulp is `2 ** -23` of that magnitude for float32, `2 ** -52` for float64, `2 ** -10` for float16
    and `2 ** -7` for bfloat16. The ulp is not taken per element: if large numbers cancel in a sum, an element
    near zero has the absolute error of its terms, an arbitrary number in ulp of the element.

    Args:
        received: the array computed in `dtype`.
        expected: the expected array, with more digits.
        dtype: the dtype that defines the ulp.
        scale: the minimum magnitude.

    Returns:
        The distance; infinite if an element is NaN or infinite in only one of the arrays.

    Example:
        >>> import numpy as np, tensorflow.compat.v1 as tf
        >>> from towerpack_layers.testing import ulp_distance
        >>> ulp_distance(np.array([1.0 + 2**-22, 0.0]), np.array([1.0, 0.0]), tf.float32)
        2.0
    """
    received, expected = np.asarray(received, np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(received[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    received, expected = received[finite], expected[finite]
    if not np.isfinite(received).all():
        return float("inf")
    largest = max(float(np.abs(expected).max(initial=0.0)), scale, float(np.finfo(np.float64).tiny))
    return float(np.abs(received - expected).max(initial=0.0) / (largest * _epsilon(dtype)))


def expect_near(
    what: str, received: np.ndarray, expected: np.ndarray, dtype: tf.DType, tolerance: float
) -> None:
    """Checks that an array has the shape of another one and is close to it.

    Args:
        what: the subject of the error's sentence.
        received: the array computed in `dtype`.
        expected: the expected array.
        dtype: the dtype that defines the ulp.
        tolerance: the largest distance, in ulp.

    Raises:
        ConformanceError: the shape differs, or the distance is larger.
    """
    received, expected = np.asarray(received), np.asarray(expected)
    expect(
        received.shape == expected.shape,
        f"{what} must have the shape {expected.shape}, received {received.shape}",
    )
    distance = ulp_distance(received, expected, dtype)
    if distance <= tolerance:
        return
    away = np.abs(np.subtract(received, expected, dtype=np.float64))
    place = np.unravel_index(np.argmax(np.where(np.isnan(away), np.inf, away)), away.shape)
    raise ConformanceError(
        f"{what} must be within {tolerance:g} ulp of {dtype.name}, received {distance:.3g} ulp: expected "
        f"{float(expected[place]):.9g} at {list(map(int, place))}, received {float(received[place]):.9g}."
    )


def _epsilon(dtype: tf.DType) -> float:
    return 2.0**-7 if dtype == tf.bfloat16 else float(np.finfo(dtype.as_numpy_dtype).eps)
