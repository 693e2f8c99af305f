"""Hypothesis strategies for the values that a datapoint may hold, and the comparison for round trips."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

__all__ = [
    "arrays",
    "columns",
    "datapoints",
    "difference",
    "few_examples",
    "numpy_scalars",
    "scalars",
    "texts",
    "values",
]

# A line end within text, quotes, a byte order mark, a lone surrogate, text that looks like something else.
_ODD_TEXTS = [
    "",
    "\r",
    "a\r",
    "a\r\nb",
    "\n",
    '"',
    "'",
    ",",
    "\ufeff",
    "\ufeffa",
    "\ud800",
    "😀",
    "\x00",
    "a\x00",
    "None",
    "nan",
]
_ODD_TEXTS += ["1", "007", "1e5", "True", " a ", "\x85", "\u2028", "\x1c", "é"]
_ODD_INTS = [
    0,
    -1,
    2**24 + 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
    2**64,
    -(2**64),
    10**30,
]
_ODD_FLOATS = [
    0.0,
    -0.0,
    1e-320,
    1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    0.1,
    1700000001.25,
]
_TIME_UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"]


def few_examples(number: int = 25) -> settings:
    """Returns settings for a property with few examples; TOWERPACK_EXAMPLES raises their number."""
    return settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", number)), deadline=None)


def texts() -> st.SearchStrategy[str]:
    """Returns text, lone surrogates and control characters among it."""
    return st.sampled_from(_ODD_TEXTS) | st.text(max_size=8)


def scalars() -> st.SearchStrategy[Any]:
    """Returns the scalar values of Python: None, bool, int of any size, float, complex, str and bytes."""
    numbers = st.sampled_from(_ODD_INTS) | st.integers() | st.sampled_from(_ODD_FLOATS) | st.floats()
    others = (
        st.none()
        | st.booleans()
        | st.complex_numbers()
        | st.binary(max_size=8)
        | st.sampled_from([b"a\x00", b"\xff"])
    )
    return numbers | others | texts()


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """Returns dtypes of both byte orders: numbers, bool, times of each unit, text, structures."""
    numbers = st.one_of(
        npst.integer_dtypes(endianness="?"),
        npst.unsigned_integer_dtypes(endianness="?"),
        npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
        npst.complex_number_dtypes(endianness="?"),
        npst.boolean_dtypes(),
    )
    times = st.builds(
        lambda kind, order, unit: np.dtype(f"{order}{kind}8[{unit}]"),
        st.sampled_from("mM"),
        st.sampled_from("<>"),
        st.sampled_from(_TIME_UNITS),
    )
    text = npst.unicode_string_dtypes(endianness="?", max_len=4) | npst.byte_string_dtypes(max_len=4)
    structures = st.sampled_from(
        [np.dtype([("x", "<i4"), ("y", ">f8")]), np.dtype([("a", "u1"), ("b", "<f2", (2,))])]
    )
    return numbers | times | text | structures


def _elements(dtype: np.dtype[Any]) -> st.SearchStrategy[Any] | None:
    # The default for text leaves lone surrogates out, which NumPy keeps.
    return (
        None
        if dtype.kind != "U"
        else st.text(max_size=dtype.itemsize // 4).map(lambda text: text.rstrip("\x00"))
    )


def arrays(max_dims: int = 3) -> st.SearchStrategy[np.ndarray]:
    """Returns arrays: 0-d and empty ones, transposed and strided views, masked ones."""
    shapes = npst.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=3)
    plain = dtypes().flatmap(lambda dtype: npst.arrays(dtype, shapes, elements=_elements(dtype)))
    views = st.one_of(plain, plain, plain.map(np.transpose), plain.map(lambda a: a[::-1] if a.ndim else a))
    masked = plain.flatmap(
        lambda array: npst.arrays(bool, array.shape).map(lambda mask: np.ma.MaskedArray(array, mask))
    )
    objects = st.lists(scalars(), max_size=3).map(lambda items: _object_array(items))
    return st.one_of(views, views, views, masked, objects)


def _object_array(items: list[Any]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def numpy_scalars() -> st.SearchStrategy[Any]:
    """Returns NumPy's scalars of every plain dtype."""
    return (
        dtypes()
        .flatmap(lambda dtype: npst.arrays(dtype, (1,), elements=_elements(dtype)))
        .map(lambda array: array[0])
    )


def values() -> st.SearchStrategy[Any]:
    """Returns a component: a scalar, an array, or lists, tuples and dicts of them at some depth."""
    keys = (
        texts() | st.integers() | st.none() | st.booleans() | st.binary(max_size=3) | st.tuples(st.integers())
    )
    leaves = scalars() | arrays() | numpy_scalars()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=5,
    )


def columns() -> st.SearchStrategy[list[Any]]:
    """Returns the values of one column: mostly alike; sometimes the last one differs."""
    alike = st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
        st.lists(st.floats(), min_size=1, max_size=4),
        st.lists(st.booleans(), min_size=1, max_size=4),
        st.lists(texts(), min_size=1, max_size=4),
        st.lists(st.none() | st.integers(-9, 9), min_size=1, max_size=4),
        st.lists(st.lists(st.none() | st.integers(-(2**62), 2**62), max_size=3), min_size=1, max_size=4),
        dtypes().flatmap(
            lambda dtype: st.lists(
                npst.arrays(dtype, (2,), elements=_elements(dtype)), min_size=1, max_size=4
            )
        ),
        dtypes().flatmap(
            lambda dtype: npst.arrays(dtype, st.integers(1, 4), elements=_elements(dtype)).map(list)
        ),
    )
    return st.one_of(alike, alike, st.tuples(alike, values()).map(lambda both: [*both[0], both[1]]))


def datapoints() -> st.SearchStrategy[Any]:
    """Returns one datapoint: a list, a tuple or a dict of components."""
    components = st.lists(values(), min_size=1, max_size=3)
    return components | components.map(tuple) | st.dictionaries(texts(), values(), min_size=1, max_size=3)


def difference(written: Any, read: Any, place: str = "datapoint") -> str | None:
    """Returns where and how two values differ in value, type or dtype; None if they are the same."""
    if isinstance(written, np.ndarray) or isinstance(read, np.ndarray):
        return _array_difference(written, read, place)
    if type(written) is not type(read):
        return f"{place}: {written!r} of {type(written)} was read as {read!r} of {type(read)}"
    if isinstance(written, np.generic):
        return _array_difference(np.asarray(written), np.asarray(read), place)
    if isinstance(written, list | tuple):
        if len(written) != len(read):
            return f"{place}: {len(written)} items were read as {len(read)}"
        parts = ((w, r, f"{place}[{k}]") for k, (w, r) in enumerate(zip(written, read, strict=True)))
        return next(filter(None, (difference(*part) for part in parts)), None)
    if isinstance(written, dict):
        if [*map(_key, written)] != [*map(_key, read)]:
            return f"{place}: keys {[*written]!r} were read as {[*read]!r}"
        parts = ((w, r, f"{place}[{k!r}]") for (k, w), r in zip(written.items(), read.values(), strict=True))
        return next(filter(None, (difference(*part) for part in parts)), None)
    # By their texts, so that -0.0 is not 0.0 and NaN is NaN.
    return None if repr(written) == repr(read) else f"{place}: {written!r} was read as {read!r}"


def _key(key: Any) -> tuple[type, Any]:
    return type(key), key


def _array_difference(written: Any, read: Any, place: str) -> str | None:
    if np.ma.isMaskedArray(written) != np.ma.isMaskedArray(read) or not isinstance(read, np.ndarray):
        return f"{place}: {written!r} was read as {read!r}"
    if not isinstance(written, np.ndarray):
        return f"{place}: {written!r} was read as an array, {read!r}"
    if written.dtype != read.dtype or written.shape != read.shape:
        return f"{place}: {written.dtype}{written.shape} was read as {read.dtype}{read.shape}"
    if np.ma.isMaskedArray(written):
        return difference(
            np.ma.getmaskarray(written), np.ma.getmaskarray(read), place + ".mask"
        ) or difference(written.filled(), read.filled(), place + ".filled")
    if written.dtype.hasobject:
        return difference(written.tolist(), read.tolist(), place)
    # Bit for bit: the bytes of NaN and of -0.0 count.
    same = np.ascontiguousarray(written).tobytes() == np.ascontiguousarray(read).tobytes()
    return None if same else f"{place}: {written!r} was read as {read!r}"
