"""A state is restored from JSON exactly, in value and type, or refused with its path."""

import json
import os
from collections import Counter, OrderedDict, namedtuple
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_callbacks.checkpoint import state_from_json, state_to_json

EXAMPLES = int(os.environ.get("TOWERPACK_EXAMPLES", 25))

Point = namedtuple("Point", "x y")
Level = IntEnum("Level", "LOW HIGH")

TEXT = st.text(st.characters(exclude_categories=()), max_size=5)
NUMPY = st.one_of(
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.floats(width=16).map(np.float16),
    st.floats().map(np.longdouble),
    st.complex_numbers().map(np.complex128),
    st.complex_numbers(width=64).map(np.complex64),
    st.booleans().map(np.bool_),
    TEXT.map(np.str_),
    st.binary(max_size=5).map(np.bytes_),
    *[
        st.integers(np.iinfo(kind).min, np.iinfo(kind).max).map(kind)
        for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
    ],
    st.builds(np.datetime64, st.integers(-(2**60), 2**60), st.sampled_from(["ns", "D", "25s", "Y"])),
    st.builds(np.timedelta64, st.integers(-(2**60), 2**60), st.sampled_from(["us", "h", "M"])),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.binary(max_size=5), NUMPY
) | st.sampled_from([2**70, -(2**200), "\ud83d\ude00", "\ud800", np.datetime64("NaT")])
KEYS = st.one_of(LEAVES, st.tuples(LEAVES, LEAVES), st.sampled_from(["__towerpack__", "of"]))
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda part: st.one_of(
            st.lists(part, max_size=4),
            st.lists(part, max_size=4).map(tuple),
            st.dictionaries(KEYS, part, max_size=4),
            st.fixed_dictionaries({"__towerpack__": st.sampled_from(["tuple", "bytes", "<f8"]), "of": part}),
        ),
        max_leaves=12,
    ),
    max_size=4,
)


def exactly(value):
    """Makes a value that is equal where value and types are, NaN and the sign of zero among them."""
    if isinstance(value, dict):
        return dict, [(exactly(key), exactly(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [exactly(part) for part in value]
    unit = np.datetime_data(value) if isinstance(value, (np.datetime64, np.timedelta64)) else None
    return type(value), unit, repr(value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(STATES)
def test_states_come_back_exactly(state):
    assert exactly(state_from_json(state_to_json(state))) == exactly(state)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=5), part, max_size=4),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=4))
def test_values_of_json_are_written_and_read_as_ever(state):
    assert state_to_json(state) == json.dumps(state)
    assert exactly(state_from_json(json.dumps(state))) == exactly(state)


HASHABLE = [Point(1, 2), Level.LOW, object(), 1j, range(3), frozenset([1])]
OTHERS = [
    *HASHABLE,
    Counter("a"),
    OrderedDict(a=1),
    {1},
    np.zeros(3),
    np.zeros((), "i4,f8")[()],
    bytearray(1),
]


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_other_types_are_refused_with_their_place(value):
    for inner, where in [(value, ""), ((0, value), r"\[1\]"), ([{2: value}], r"\[0\]\[2\]")]:
        place = rf"^state\['callbacks'\]\['Mine'\]\['best'\]{where} is "
        with pytest.raises(TypeError, match=rf"{place}(?s:.*) of type .*, which JSON cannot express"):
            state_to_json({"callbacks": {"Mine": {"best": inner}}})


@pytest.mark.parametrize("key", HASHABLE, ids=lambda value: type(value).__name__)
def test_other_keys_are_refused_with_their_place(key):
    with pytest.raises(
        TypeError, match=r"^the key .* of state\['Mine'\] is .* of type .*JSON cannot express"
    ):
        state_to_json({"Mine": {key: 1}})


@pytest.mark.parametrize(
    "text",
    [
        '{"__towerpack__": "set", "of": []}',
        '{"__towerpack__": ["tuple"], "of": []}',
        '{"__towerpack__": "bytes", "of": null}',
        '{"__towerpack__": "bytes"}',
        '{"__towerpack__": "tuple", "of": 3}',
        '{"__towerpack__": "dict", "of": [[1]]}',
        '{"__towerpack__": "<f8", "of": ""}',
        '{"__towerpack__": "|O8", "of": "AAAAAAAAAAA="}',
        '{"__towerpack__": "O", "of": "AAAAAAAAAAA="}',
        "[" * 100_000,
    ],
)
def test_damaged_and_unknown_tags_are_errors(text):
    with pytest.raises(ValueError):
        state_from_json(text)
