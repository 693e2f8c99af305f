"""Conversion of the arrays in a datapoint to JAX arrays."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..._errors import ComponentError

__all__ = ["jax_array"]

_TEXT = "SUO"
_NARROW = {"i": np.int32, "u": np.uint32, "f": np.float32, "c": np.complex64}


def jax_array(value: Any, path: tuple[Any, ...], sharding: Any) -> Any:
    """Returns an array or a NumPy scalar as a JAX array; text, objects and other values unchanged.

    On the CPU, the JAX array shares the memory of an array that is aligned to 64 bytes, and keeps that memory
    from being used again.

    Args:
        value: an array, or any other value.
        path: its place in the datapoint.
        sharding: a `jax.sharding.Sharding` of the global array; `None` for the default device.

    Raises:
        ComponentError: JAX has no such dtype, an integer exceeds 32 bits without `jax_enable_x64`, or the
            sharding does not fit the shape.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind in _TEXT:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise _refused(path, "a masked array; use x.filled(0) in a MapDataComponent below")
    value = _narrow(value, path)
    try:
        if sharding is None:
            return jax.device_put(value)
        return jax.make_array_from_process_local_data(sharding, value)
    except (AssertionError, TypeError, ValueError) as error:  # JAX asserts that a sharding fits
        raise _refused(
            path,
            f"an array of {value.dtype} with shape {value.shape}, which JAX refuses: {error}. A smaller "
            "last batch does not fit a sharding: use drop_last=True, or BatchData without remainder",
        ) from error


def _narrow(value: np.ndarray, path: tuple[Any, ...]) -> np.ndarray:
    """Returns 64-bit numbers in 32 bits, as JAX does by default; no integer may change."""
    dtype = value.dtype
    if dtype.kind not in _NARROW or dtype.itemsize < (16 if dtype.kind == "c" else 8):
        return value
    if jax.config.jax_enable_x64:
        return value
    narrow: np.ndarray = value.astype(_NARROW[dtype.kind])
    if dtype.kind in "iu" and not np.array_equal(narrow, value):
        raise _refused(
            path,
            f"an array of {dtype} with numbers beyond 32 bits, which JAX would change; set "
            'jax.config.update("jax_enable_x64", True)',
        )
    return narrow


def _refused(path: tuple[Any, ...], problem: str) -> ComponentError:
    return ComponentError(f"component {'.'.join(map(str, path)) or 'of the datapoint'} is {problem}")
