"""Converts a component to its declared dtype; refuses conversions that would change a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from .._errors import DatapointError, DatapointShapeError, DatapointTypeError

__all__ = ["Array", "NumberConversion", "TextConversion"]

Array = npt.NDArray[Any]

_ONLY_VALUES = frozenset({np.ndarray, np.memmap, np.matrix, np.recarray, np.ma.MaskedArray})
_WHOLE = 2.0**24  # float32 represents all integers up to this; ids and Unix times are larger


@final
class NumberConversion:
    """Converts a value to an array of a numeric dtype.

    Integers of another width, signed or unsigned, are converted if the dtype can represent all of them.
    Floats and complex numbers in arrays are converted only to a wider dtype. Python floats are rounded to the
    nearest value, like literals, but not to infinity, and not above 2**24, where float32 cannot represent all
    integers. A conversion between kinds is allowed only for Python numbers that the dtype can represent
    exactly: 1 for 1.0, 2.0 for 2.

    Args:
        dtype: the declared dtype.
        label: the component, for errors.
        number: its number, for errors.
    """

    looks_at_each = False  # an array of the dtype is accepted unchanged

    def __init__(self, dtype: np.dtype[Any], label: str, number: int) -> None:
        self._dtype = dtype
        self._label = label
        self._number = number

    def __call__(self, value: Any) -> Array:
        """Returns the value as an array of the dtype.

        Raises:
            DatapointTypeError: the value has another kind, or information would be lost.
            DatapointShapeError: lists of unequal lengths do not form an array.
        """
        _refuse_losses(value, self._label, self._number)
        if isinstance(value, (np.ndarray, np.generic)):
            return self._of_array(np.asarray(value))
        return self._of_python(value)

    def _of_array(self, array: Array) -> Array:
        received, declared = array.dtype, self._dtype
        if received == declared:
            return array
        if received.kind in "iu" and declared.kind in "iu" and received.isnative:
            converted = array.astype(declared)
            if not np.can_cast(received, declared) and not _same_integers(converted, array):
                raise self._not_a_value(_first_unequal(converted, array))
            return converted
        same_kind = received.kind == declared.kind and received.kind in "fc" and received.isnative
        if same_kind and np.can_cast(received, declared):
            return array.astype(declared)
        raise self._wrong_dtype(received)

    def _of_python(self, value: Any) -> Array:
        declared = self._dtype
        members = list(_members(value)) if isinstance(value, (list, tuple)) else ()
        for member in members:
            _refuse_losses(member, self._label, self._number)
        try:
            plain = np.asarray(value)
        except (ValueError, OverflowError) as error:
            raise DatapointShapeError(
                f"{self._label}: cannot make an array of the received value: {error}"
            ) from error
        if plain.dtype.kind in "fc" and not all(map(_is_float, members)):
            raise self._not_a_value(value)
        if plain.dtype == declared:
            return np.array(plain)  # the value may be a buffer that is modified later
        if plain.dtype.kind == "c" and declared.kind != "c":
            raise self._wrong_dtype(plain.dtype)
        if plain.dtype.kind not in "biufc" or declared.names is not None:
            raise self._wrong_dtype(plain.dtype)
        with np.errstate(all="ignore"):
            converted: Array = plain.astype(declared)
            kept = _only_rounded if plain.dtype.kind in "fc" and declared.kind in "fcV" else _same_integers
            if not kept(converted, plain):
                raise self._not_a_value(value)
        return converted

    def _not_a_value(self, value: Any) -> DatapointError:
        return DatapointTypeError(
            f"{self._label}: received {value!r}, which is not a value of the declared dtype {self._dtype}. "
            "Declare a dtype that can represent it, or change it in the flow."
        )

    def _wrong_dtype(self, received: np.dtype[Any]) -> DatapointError:
        return _wrong_dtype(received, str(self._dtype), self._label, self._number)


@final
class TextConversion:
    """Converts a value to an array of Python strings for TensorFlow: `str` or `bytes`.

    Args:
        label: the component, for errors.
        number: its number, for errors.
    """

    looks_at_each = True  # an array of objects may contain any type

    def __init__(self, label: str, number: int) -> None:
        self._label = label
        self._number = number

    def __call__(self, value: Any) -> Array:
        """Returns the value as an array of text objects.

        Raises:
            DatapointTypeError: a value is not text, or cannot be encoded in UTF-8.
        """
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "OSU":
            raise _wrong_dtype(value.dtype, "str", self._label, self._number)
        for member in _members(value) if isinstance(value, (list, tuple)) else (value,):
            _refuse_losses(member, self._label, self._number)
        array: Array = np.asarray(value, dtype=object)
        for text in array.ravel():
            if type(text) is not bytes:
                self._check(text)
        return array

    def _check(self, text: Any) -> None:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                self._refuse(f"{text!r}, which UTF-8 cannot encode ({error.reason})")
        elif not isinstance(text, bytes):
            self._refuse(f"{text!r} of type {type(text).__name__}")

    def _refuse(self, what: str) -> NoReturn:
        raise DatapointTypeError(
            f"{self._label}: received {what}, declared are strings. Give str or bytes, for example with "
            f"MapDataComponent(df, function, {self._number})."
        )


def _members(value: Any) -> Iterator[Any]:
    for member in value:
        if isinstance(member, (list, tuple)):
            yield from _members(member)
        else:
            yield member


def _is_float(value: Any) -> bool:
    """Returns whether float64 represents a value exactly; NumPy rounds integers in lists of floats."""
    return not isinstance(value, (int, np.integer)) or int(float(value)) == value


def _refuse_losses(value: Any, label: str, number: int) -> None:
    if isinstance(value, np.ma.MaskedArray) and np.any(np.ma.flatten_mask(np.ma.getmaskarray(value))):
        raise DatapointTypeError(
            f"{label}: received a masked array, but TensorFlow has no masks. Fill it in the flow: "
            f"MapDataComponent(df, lambda x: x.filled(0), {number})."
        )
    if isinstance(value, np.ndarray) and type(value) not in _ONLY_VALUES:
        raise DatapointTypeError(
            f"{label}: received {type(value).__name__}, a subclass of array with attributes, such as a "
            "unit, that would be lost. Give only the values: "
            f"MapDataComponent(df, numpy.asarray, {number})."
        )


def _same_integers(converted: Array, plain: Array) -> bool:
    """Returns whether all values are exactly equal; NumPy compares some pairs of dtypes as floats."""
    return np.array_equal(converted, plain) and np.array_equal(converted.astype(plain.dtype), plain)


def _only_rounded(converted: Array, plain: Array) -> bool:
    """Returns whether no value became infinite or a different integer."""
    if converted.dtype.kind == "c":
        parts = ((converted.real, plain.real), (converted.imag, plain.imag))
        return all(_only_rounded(one, other) for one, other in parts)
    if not np.array_equal(np.isfinite(converted), np.isfinite(plain)):
        return False
    large = (np.abs(plain) > _WHOLE) & (
        converted.dtype.itemsize > 2
    )  # coarse steps are expected in half precision
    return np.array_equal(converted[large].astype(np.float64), plain[large])


def _first_unequal(converted: Array, plain: Array) -> Any:
    same = (converted == plain) & (converted.astype(plain.dtype) == plain)
    return plain[~same].flat[0].item()


def _wrong_dtype(received: np.dtype[Any], wanted: str, label: str, number: int) -> DatapointError:
    return DatapointTypeError(
        f"{label}: received dtype {received}, declared is {wanted}. Convert it in the flow: "
        f"MapDataComponent(df, lambda x: np.asarray(x, {wanted!r}), {number}), or declare {received}."
    )
