"""Conversion of a component to its declared dtype, refused where a value would become another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from .._errors import DatapointError, DatapointShapeError, DatapointTypeError

__all__ = ["Array", "NumberConversion", "TextConversion"]

Array = npt.NDArray[Any]

_ONLY_VALUES = frozenset({np.ndarray, np.memmap, np.matrix, np.recarray, np.ma.MaskedArray})
_WHOLE = 2.0**24  # up to here float32 holds each integer; ids and Unix times lie above


@final
class NumberConversion:
    """Turns a value into an array of a dtype of numbers.

    Integers of another width, signed or not, are converted where each of them is a value of the dtype. Floats
    and complex numbers in arrays are converted to a wider dtype alone; those of Python are rounded to the
    nearest value, as a literal would be, but not to infinity, and not above 2**24, where float32 leaves
    integers out. One kind becomes another only where a Python number is one of the dtype's values: 1 for 1.0,
    2.0 for 2.

    Args:
        dtype: the declared dtype.
        label: the component, for errors.
        number: its number, for errors.
    """

    looks_at_each = False  # an array of the dtype is taken as it is

    def __init__(self, dtype: np.dtype[Any], label: str, number: int) -> None:
        self._dtype = dtype
        self._label = label
        self._number = number

    def __call__(self, value: Any) -> Array:
        """Returns the value as an array of the dtype.

        Raises:
            DatapointTypeError: the value is of another kind, or something would get lost.
            DatapointShapeError: lists of unequal length make no array.
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
            return np.array(plain)  # the value may be a buffer, which somebody may write to
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
            "Declare a dtype that holds it, or change it in the flow."
        )

    def _wrong_dtype(self, received: np.dtype[Any]) -> DatapointError:
        return _wrong_dtype(received, str(self._dtype), self._label, self._number)


@final
class TextConversion:
    """Turns a value into an array of Python strings that TensorFlow can take: `str` or `bytes`.

    Args:
        label: the component, for errors.
        number: its number, for errors.
    """

    looks_at_each = True  # an array of objects may hold anything

    def __init__(self, label: str, number: int) -> None:
        self._label = label
        self._number = number

    def __call__(self, value: Any) -> Array:
        """Returns the value as an array of objects, each of which is text.

        Raises:
            DatapointTypeError: a value is no text, or cannot be encoded in UTF-8.
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
            f"{self._label}: received {what}, declared are strings. Give str or bytes, for example by "
            f"MapDataComponent(df, function, {self._number})."
        )


def _members(value: Any) -> Iterator[Any]:
    for member in value:
        if isinstance(member, (list, tuple)):
            yield from _members(member)
        else:
            yield member


def _is_float(value: Any) -> bool:
    """Returns whether float64 holds a value; NumPy rounds integers that stand among floats."""
    return not isinstance(value, (int, np.integer)) or int(float(value)) == value


def _refuse_losses(value: Any, label: str, number: int) -> None:
    if isinstance(value, np.ma.MaskedArray) and np.any(np.ma.flatten_mask(np.ma.getmaskarray(value))):
        raise DatapointTypeError(
            f"{label}: received a masked array, and TensorFlow has no masks. Fill it in the flow: "
            f"MapDataComponent(df, lambda x: x.filled(0), {number})."
        )
    if isinstance(value, np.ndarray) and type(value) not in _ONLY_VALUES:
        raise DatapointTypeError(
            f"{label}: received {type(value).__name__}, an array of its own class, and its attributes, "
            "such as a unit, would get lost. Give the values alone: "
            f"MapDataComponent(df, numpy.asarray, {number})."
        )


def _same_integers(converted: Array, plain: Array) -> bool:
    """Returns whether each value is the same, exactly; NumPy compares some pairs of dtypes as floats."""
    return np.array_equal(converted, plain) and np.array_equal(converted.astype(plain.dtype), plain)


def _only_rounded(converted: Array, plain: Array) -> bool:
    """Returns whether no value became infinite, or another integer."""
    if converted.dtype.kind == "c":
        parts = ((converted.real, plain.real), (converted.imag, plain.imag))
        return all(_only_rounded(one, other) for one, other in parts)
    if not np.array_equal(np.isfinite(converted), np.isfinite(plain)):
        return False
    large = (np.abs(plain) > _WHOLE) & (converted.dtype.itemsize > 2)  # half precision is asked for its steps
    return np.array_equal(converted[large].astype(np.float64), plain[large])


def _first_unequal(converted: Array, plain: Array) -> Any:
    same = (converted == plain) & (converted.astype(plain.dtype) == plain)
    return plain[~same].flat[0].item()


def _wrong_dtype(received: np.dtype[Any], wanted: str, label: str, number: int) -> DatapointError:
    return DatapointTypeError(
        f"{label}: received dtype {received}, declared is {wanted}. Convert it in the flow: "
        f"MapDataComponent(df, lambda x: np.asarray(x, {wanted!r}), {number}), or declare {received}."
    )
