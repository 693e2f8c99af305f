"""Checks of the samples of metrics, with uniform messages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._errors import SamplesError

__all__ = ["Float64Array", "as_finite_array", "as_samples", "check_at_least", "check_same_dimension"]

Float64Array = npt.NDArray[np.float64]


def as_samples(name: str, samples: npt.ArrayLike, at_least: int, why: str) -> Float64Array:
    """Converts samples to a float64 matrix.

    Args:
        name: name of the argument.
        samples: shape [number, dimension].
        at_least: the minimum number of samples.
        why: the reason for the minimum, for the message.

    Raises:
        TypeError: the values are no real numbers.
        SamplesError: there are too few samples, a value is not finite, or the shape is wrong.
    """
    matrix = as_finite_array(name, samples, 2)
    number, dimension = matrix.shape
    if number < at_least:
        raise SamplesError(f"{name} has {number} samples; {why} needs {at_least} or more.")
    if not dimension:
        raise SamplesError(f"{name} has shape {matrix.shape}: expected a dimension of at least 1.")
    return matrix


def as_finite_array(name: str, values: npt.ArrayLike, rank: int) -> Float64Array:
    """Converts values to float64.

    Args:
        name: name of the argument.
        values: an array of `rank` axes.
        rank: 1 for a vector, 2 for a matrix.

    Raises:
        TypeError: the values are no real numbers.
        SamplesError: a value is not finite, or the number of axes is wrong.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "fiub" and given.dtype.name != "bfloat16":
        raise TypeError(f"{name} has dtype {given.dtype}: expected real numbers.")
    if given.ndim != rank:
        expected = "[number of samples, dimension]; reshape(len(x), -1) flattens images"
        raise SamplesError(
            f"{name} has shape {given.shape}: expected {expected if rank == 2 else 'one axis'}."
        )
    array = given.astype(np.float64)
    if not np.isfinite(array).all():
        bad = np.unique(np.argwhere(~np.isfinite(array))[:, 0])
        raise SamplesError(
            f"{name} has values that are not finite in {len(bad)} of {len(array)} rows, the first is row "
            f"{bad[0]}. Find the op that makes them, for example with TerminateOnNaN() during training."
        )
    return array


def check_same_dimension(names: tuple[str, str], one: Float64Array, other: Float64Array) -> None:
    """Checks that two sets of samples have the same dimension, their last axis.

    Raises:
        SamplesError: the dimensions differ.
    """
    if one.shape[-1] != other.shape[-1]:
        raise SamplesError(
            f"{names[0]} has dimension {one.shape[-1]}, {names[1]} has {other.shape[-1]}: expected the same "
            "features for both."
        )


def check_at_least(shown: str, value: object, fewest: int) -> None:
    """Checks that an argument is a whole number of at least a given size.

    Args:
        shown: the argument as the message shows it, such as "precision_recall(k=0)".
        value: the argument.
        fewest: the smallest number allowed.

    Raises:
        ValueError: the argument is not a whole number, or too small.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < fewest:
        raise ValueError(f"{shown}: expected a whole number of at least {fewest}.")
