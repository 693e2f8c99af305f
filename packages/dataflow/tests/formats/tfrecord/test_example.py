"""`tf.train.Example` encoded and decoded, and bytes of other content."""

import contextlib

import numpy as np
import pytest
from any_datapoints import few_examples, texts, values
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    FormatError,
    decode_example,
    decode_sequence_example,
    encode_example,
)

# {"f": [0.5, 1.5], "i": [-1, 300], "s": [b"a", b""]} as TensorFlow 2.21 writes it.
BY_TENSORFLOW = bytes.fromhex(
    "0a380a110a0166120c120a0a080000003f0000c03f0a150a016912101a0e0a0cffffffffffffffffff01ac020a0c0a0173"
    "12070a050a01610a00"
)

# The context {"id": [7]}, and lists {"x": [[0.5], [1.5, 2.5]]}, as TensorFlow 2.21 writes them.
SEQUENCE_BY_TENSORFLOW = bytes.fromhex(
    "0a0d0a0b0a02696412051a030a0107121f0a1d0a017812180a0812060a040000003f0a0c120a0a080000c03f00002040"
)

FEATURES = st.dictionaries(
    st.text(max_size=8),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1).map(lambda v: np.array(v, np.int64))
    | st.lists(st.floats(width=32, allow_nan=False)).map(lambda v: np.array(v, np.float32))
    | st.lists(st.binary(max_size=9), min_size=1),
)


def lists(example):
    return {name: (value.dtype.kind, value.tolist()) for name, value in example.items()}


def test_examples_written_by_tensorflow():
    assert lists(decode_example(BY_TENSORFLOW)) == {
        "f": ("f", [0.5, 1.5]),
        "i": ("i", [-1, 300]),
        "s": ("O", [b"a", b""]),
    }
    assert encode_example({"f": [0.5, 1.5], "i": [-1, 300], "s": ["a", b""]}) == BY_TENSORFLOW


def test_a_sequence_that_tensorflow_writes():
    context, lists_of = decode_sequence_example(SEQUENCE_BY_TENSORFLOW)
    assert lists(context) == {"id": ("i", [7])}
    assert [frame.tolist() for frame in lists_of["x"]] == [[0.5], [1.5, 2.5]] and list(lists_of) == ["x"]
    assert decode_sequence_example(BY_TENSORFLOW)[0].keys() == {
        "f",
        "i",
        "s",
    }  # an Example is one without lists


@given(st.binary(max_size=40))
def test_bytes_that_are_no_sequence_are_refused_or_decoded(raw):
    with contextlib.suppress(FormatError):
        context, lists_of = decode_sequence_example(raw)
        assert isinstance(context, dict) and isinstance(lists_of, dict)


@given(FEATURES)
def test_a_round_trip(features):
    found = decode_example(encode_example(features))
    assert list(found) == list(features)
    for name, value in features.items():
        expected = value if isinstance(value, np.ndarray) else np.array(value, object)
        assert found[name].dtype == expected.dtype
        assert found[name].tolist() == expected.tolist()
        found[name][...] = expected  # it may be written to


def test_values_of_many_kinds():
    example = {
        "flag": True,
        "image": np.arange(4, dtype=np.uint8).reshape(2, 2),
        "half": np.float16(0.5),
        "raw": b"\0\1\0",
        "text": "é",
        "words": np.array(["a", "bc"]),
        "none": [],
    }
    assert lists(decode_example(encode_example(example))) == {
        "flag": ("i", [1]),
        "image": ("i", [0, 1, 2, 3]),
        "half": ("f", [0.5]),
        "raw": ("O", [b"\0\1\0"]),
        "text": ("O", ["é".encode()]),
        "words": ("O", [b"a", b"bc"]),
        "none": ("f", []),
    }


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1j, "received an array of complex128"),
        ([b"a", 1], "an array of strings and bytes; received 1"),
        (1e39, "too large for a float of 32 bits"),
        (np.uint64(2**63), "a number above"),
        (None, "received None"),
        ({1}, "received {1}"),
        (2**64, "received 18446744073709551616"),
        ([2**63, -1], "neither an Int64List nor floats of 32 bits can hold"),
        ([2**24 + 1, 0.5], "neither an Int64List nor floats of 32 bits can hold"),
        (np.datetime64(5, "s"), "received an array of datetime64"),
        (np.ma.masked_array([1, 2], [0, 1]), "a MaskedArray, which an Example cannot store"),
        ([np.ma.masked_array([1, 2], [0, 1])], "a MaskedArray, which an Example cannot store"),
        (memoryview(b"ab"), "a memoryview, which"),
        ([[1], [2, 3]], "lists of unequal lengths"),
        ("\ud800", "text that UTF-8 cannot encode"),
    ],
)
def test_values_that_no_example_holds(value, found):
    with pytest.raises(ArgumentError, match=f"feature 'x' .*{found}"):
        encode_example({"x": value})


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ([1], "a mapping of features by name; received list"),
        ({1: 2}, "the name of a feature is a string; received 1"),
        ({"\ud800": 2}, "text that UTF-8 cannot encode"),
    ],
)
def test_arguments_other_than_mappings_of_features(features, found):
    with pytest.raises(ArgumentError, match=found):
        encode_example(features)


def test_zeros_at_the_end_of_bytes_are_kept_in_nested_lists():
    found = decode_example(encode_example({"x": [[b"a\0", b""], ["b", bytearray(b"\0")]]}))
    assert found["x"].tolist() == [b"a\0", b"", b"b", b"\0"]


def flat(value):
    """The values in lists, tuples and arrays, as Python has them."""
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in flat(part)]
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist()
    return [value.item() if isinstance(value, np.generic) else value]


@pytest.mark.slow
@few_examples(100)
@given(st.dictionaries(texts(), values(), min_size=1, max_size=3))
def test_any_features_are_restored_or_rejected(features):
    """Floats come back as floats of 32 bits, integers as such of 64, text as bytes."""
    try:
        found = decode_example(encode_example(features))
    except ArgumentError:
        return
    for name, value in features.items():
        written, array = flat(value), found[name]
        if array.dtype == np.float32:
            np.testing.assert_array_equal(array, np.array(written, "f4"))
        elif array.dtype == np.int64:
            assert array.tolist() == written and not any(isinstance(item, float) for item in written)
        else:
            raw = [item.encode() if isinstance(item, str) else bytes(item) for item in written]
            assert array.tolist() == raw


def test_lists_that_are_not_packed():
    # Old writers wrote floats and integers one by one.
    floats = b"\x0a\x11\x0a\x0f\x0a\x01f\x12\x0a\x12\x08\x0d\0\0\0\x3f\x12\x01"
    with pytest.raises(FormatError):
        decode_example(floats)
    one_by_one = b"\x0a\x10\x0a\x0e\x0a\x01f\x12\x09\x12\x07\x0d\0\0\0\x3f\x10\x01"
    assert decode_example(one_by_one)["f"].tolist() == [0.5]
    integers = b"\x0a\x0d\x0a\x0b\x0a\x01i\x12\x06\x1a\x04\x08\x05\x08\x06"
    assert decode_example(integers)["i"].tolist() == [5, 6]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a",
        b"\x0a\x05",
        b"\x0b",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        BY_TENSORFLOW[:-1],
        b"text",
    ],
)
def test_bytes_that_are_no_example(raw):
    with pytest.raises(FormatError, match=r"not a tf\.train\.Example"):
        decode_example(raw)


@given(st.binary(max_size=100))
def test_any_bytes_are_decoded_or_refused(raw):
    with contextlib.suppress(FormatError):
        decode_example(raw)


@given(st.data())
def test_any_damage_is_decoded_or_refused(data):
    raw = bytearray(BY_TENSORFLOW)
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        decode_example(raw)
