"""Specs of a datapoint's components, and checks of datapoints and tensors against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, final

import numpy as np
import numpy.typing as npt
import tensorflow.compat.v1 as tf

from ._errors import (
    DatapointError,
    DatapointShapeError,
    DatapointStructureError,
    DatapointTypeError,
    SpecError,
)

__all__ = [
    "Array",
    "Component",
    "as_declared",
    "check_component",
    "check_specs",
    "compile_block_check",
    "compile_check",
    "component_of",
    "in_order_of",
    "safe_to_keep",
    "with_batch_size",
]

Shape = tuple["int | None", ...] | None

# TensorFlow aliases an array at an address with this alignment instead of copying it.
_ALIASED_AT = 64
# Owners of memory that nothing can write to. NumPy's memory is never safe: the owner of the array or of an
# older view may write to it, even if `flags.writeable` of this array is False.
_FROZEN_OWNERS: tuple[type, ...] = (bytes,)
# The owner of lent memory has this attribute: the lender does not write to the memory while the owner exists.
# An attribute instead of a type, so that any flow can lend.
_LEASE = "towerpack_lease"


@final
class Component(NamedTuple):
    """The declaration of one component of a datapoint.

    Attributes:
        name: the component's name; the key if datapoints are dicts.
        dtype: the NumPy dtype; of kind "O" for strings.
        shape: one entry per axis, None for any size; None for any rank.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape


def compile_check(components: Sequence[Component]) -> Callable[[Any], list[Array]]:
    """Makes a function that converts a datapoint to the arrays to feed, in order, checked and safe to keep.

    Arrays must have the declared dtype, or one of the same kind with exactly convertible values; Python
    numbers, strings and lists are converted if no information is lost. An array that TensorFlow would alias
    and that may still be modified is copied.

    Args:
        components: the declarations of the datapoint's components.

    Returns:
        A function that raises a `DatapointError` with the component, the received and the declared value for
        a mismatch.
    """
    takers = [_compile_component(number, component) for number, component in enumerate(components)]
    names = [component.name for component in components]
    count = len(takers)

    def check(datapoint: Any) -> list[Array]:
        if isinstance(datapoint, Mapping):
            datapoint = _in_order(datapoint, names)
        elif not isinstance(datapoint, (list, tuple)) or len(datapoint) != count:
            raise _wrong_structure(datapoint, names)
        return [take(value) for take, value in zip(takers, datapoint)]

    return check


def compile_block_check(specs: Sequence[tf.TensorSpec]) -> Callable[[Any], list[Array]] | None:
    """Makes the check of a block of datapoints; None if these may not have equal shapes, or have strings."""
    if any(spec.shape.rank is None or spec.dtype == tf.string for spec in specs):
        return None
    components = map(component_of, specs)
    return compile_check([each._replace(shape=(None, *(each.shape or ()))) for each in components])


def _in_order(datapoint: Mapping[str, Any], names: list[str]) -> list[Any]:
    if len(datapoint) != len(names) or not all(name in datapoint for name in names):
        raise DatapointStructureError(
            f"received a dict with the keys {sorted(map(str, datapoint))}, declared are {names}. "
            "Give exactly the declared keys, for example with MapData."
        )
    return [datapoint[name] for name in names]


def _wrong_structure(datapoint: Any, names: list[str]) -> DatapointStructureError:
    if isinstance(datapoint, (list, tuple)):
        received = f"{len(datapoint)} components"
    else:
        received = f"{type(datapoint).__name__} instead of a list, tuple or dict of components"
    return DatapointStructureError(
        f"received {received}, declared are {len(names)}: {names}. "
        "Yield one component for each from the flow, in this order, for example with MapData."
    )


def _compile_component(number: int, component: Component) -> Callable[[Any], Array]:
    dtype, shape = component.dtype, component.shape
    label = f"component {number} ({component.name!r})"
    exact = shape if shape is not None and None not in shape else None
    to_dtype = TextConversion(label, number) if dtype.kind == "O" else NumberConversion(dtype, label, number)

    def take(value: Any) -> Array:
        if type(value) is not np.ndarray or value.dtype != dtype or to_dtype.looks_at_each:
            value = to_dtype(value)
        if exact is not None:
            if value.shape != exact:
                raise _wrong_shape(value.shape, exact, label, number)
        elif not fits(value.shape, shape):
            raise _wrong_shape(value.shape, shape, label, number)
        return safe_to_keep(value)

    return take


def safe_to_keep(array: Array) -> Array:
    """Returns an array, or a copy if TensorFlow would alias memory that may still be modified."""
    return array.copy() if _would_be_shared(array) else array


def fits(shape: tuple[int, ...], declared: Shape) -> bool:
    """Returns whether a shape matches a declared shape.

    >>> fits((32, 28), (None, 28)), fits((32,), (None, 28)), fits((3, 4, 5), None)
    (True, False, True)
    """
    if declared is None:
        return True
    if len(shape) != len(declared):
        return False
    return all(want is None or have == want for have, want in zip(shape, declared))


def _would_be_shared(array: Array) -> bool:
    """Returns whether TensorFlow would alias memory that may still be modified."""
    if array.__array_interface__["data"][0] % _ALIASED_AT or array.dtype.kind == "O":
        return False
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray):
            writeable, owner = owner.flags.writeable, owner.base
        else:  # the owner of an unpickled array is a memoryview
            writeable, owner = not owner.readonly, owner.obj
        if writeable:
            return True
    return not (isinstance(owner, _FROZEN_OWNERS) or getattr(owner, _LEASE, False))


def _wrong_shape(received: tuple[int, ...], declared: Shape, label: str, number: int) -> DatapointShapeError:
    return DatapointShapeError(
        f"{label}: received shape {received}, declared is {declared}. Change it in the flow "
        f"(MapDataComponent(df, function, {number}), BatchData), or declare None if the size varies."
    )


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


def check_specs(specs: Sequence[tf.TensorSpec]) -> tuple[tf.TensorSpec, ...]:
    """Checks the specs of a source and returns them as a tuple.

    Raises:
        SpecError: there are no specs, or one is not a `tf.TensorSpec`, is unnamed, or shares its name.
    """
    checked = tuple(specs)
    if not checked:
        raise SpecError(
            "setup() received no specs. Give one tf.TensorSpec for each component of a datapoint."
        )
    for number, spec in enumerate(checked):
        if not isinstance(spec, tf.TensorSpec):
            raise SpecError(f"Spec {number} is {spec!r}, not a tf.TensorSpec(shape, dtype, name).")
        if not spec.name:
            raise SpecError(f"Spec {number} has no name: {spec!r}. Write tf.TensorSpec(shape, dtype, name).")
    names = [spec.name for spec in checked]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise SpecError(
            f"The names {doubled} occur more than once in the specs {names}; make each name unique."
        )
    return checked


def component_of(spec: tf.TensorSpec) -> Component:
    """Returns a spec in NumPy's terms, for the check of arrays to feed."""
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return Component(spec.name, np.dtype(spec.dtype.as_numpy_dtype), shape)


def with_batch_size(specs: Sequence[tf.TensorSpec], size: int | None) -> tuple[tf.TensorSpec, ...]:
    """Returns the specs with an unknown first axis filled in; a size of None leaves them unchanged.

    TensorFlow then computes shapes once, when the graph is built, instead of in each step.
    """
    if size is None:
        return tuple(specs)
    return tuple(
        tf.TensorSpec([size, *spec.shape[1:]], spec.dtype, spec.name)
        if spec.shape.rank and spec.shape[0] is None
        else spec
        for spec in specs
    )


def in_order_of(specs: Sequence[tf.TensorSpec], components: Any, giver: str) -> list[Any]:
    """Returns the components as a list in the order of the specs.

    Args:
        specs: the declared specs.
        components: a list or tuple in the order of the specs, a dict by their names, or a single component.
        giver: the origin of the components, for the error.

    Raises:
        SpecError: the components do not correspond to the specs.
    """
    names = [spec.name for spec in specs]
    if isinstance(components, Mapping):
        if set(components) != set(names):
            raise SpecError(
                f"{giver} gives a dict with the keys {sorted(map(str, components))}, but the specs declare "
                f"{names}. Give exactly these."
            )
        return [components[name] for name in names]
    listed = list(components) if isinstance(components, (list, tuple)) else [components]
    if len(listed) != len(names):
        raise SpecError(
            f"{giver} gives {len(listed)} components, but the specs declare {len(names)}: {names}. "
            "Give one for each, in this order, or a dict by these names."
        )
    return listed


def check_component(spec: tf.TensorSpec, dtype: tf.DType, shape: tf.TensorShape, giver: str) -> None:
    """Checks the known dtype and shape of a component against its spec.

    Raises:
        SpecError: the dtype or the shape does not match the declared one.
    """
    if dtype != spec.dtype:
        raise SpecError(
            f"{giver} gives {spec.name!r} as {dtype.name}, but the spec declares {spec.dtype.name}. "
            f"Cast it there, or declare {dtype.name}."
        )
    if not spec.shape.is_compatible_with(shape):
        raise SpecError(
            f"{giver} gives {spec.name!r} with the shape {shape}, but the spec declares {spec.shape}. "
            "Change one of them; None is any size."
        )


def as_declared(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the tensor with the declared shape, checked at run time only if not known to match."""
    known = tensor.shape
    fits = spec.shape.rank is None or (
        known.rank is not None
        and all(want is None or have == want for have, want in zip(known.as_list(), spec.shape.as_list()))
    )
    return tensor if fits else tf.ensure_shape(tensor, spec.shape)
