"""Supported values arrive unchanged; everything else is rejected on the side where it appears."""

import collections
import contextlib
import enum
import fractions

import msgpack
import numpy as np
import pytest
from any_datapoints import difference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from towerpack_dataflow import DataFlowError, MessageError, SendError
from towerpack_dataflow.remote import pack_message, unpack_message

NUMBERS = st.one_of(
    arrays_of.boolean_dtypes(),
    arrays_of.integer_dtypes(endianness="?"),
    arrays_of.floating_dtypes(endianness="?"),
    arrays_of.complex_number_dtypes(endianness="?"),
    arrays_of.datetime64_dtypes(endianness="?"),
)
ARRAYS = NUMBERS.flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(max_size=50),
    ARRAYS,
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=12,
)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, (np.ndarray, np.generic)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for part, same in zip(one, other):
            assert_same(part, same)
    else:
        assert one == other


def there_and_back(value):
    return unpack_message([bytes(frame) for frame in pack_message(value)])


@given(VALUES)
def test_a_sent_value_arrives(value):
    assert_same(value, there_and_back(value))


def test_arrays_of_any_layout_arrive_and_large_ones_lie_in_frames():
    whole = np.arange(24000, dtype=">f4").reshape(20, 30, 40)
    strings = np.array([["a", b"b"], [None, (1, [2])]], object)
    value = [whole, whole[:, ::2], whole.T, np.asfortranarray(whole), whole[0, 0, 0], strings]
    assert len(pack_message(value)) == 1 + 4
    assert_same(value, there_and_back(value))


def test_large_arrays_are_not_copied():
    array = np.zeros((100, 100))
    (_, frame) = pack_message({"image": array})
    array[3, 3] = 7
    assert np.shares_memory(np.frombuffer(frame), array)
    assert unpack_message(pack_message({"image": array}))["image"][3, 3] == 7


def test_received_arrays_are_views_of_frames_and_small_ones_can_be_written():
    head, frame = pack_message([np.zeros(1000), np.zeros(2)])
    buffer = bytearray(frame)
    large, small = unpack_message([head, buffer])
    assert np.shares_memory(large, np.frombuffer(buffer))
    large[0] = small[0] = 1


class Colour(enum.IntEnum):
    RED = 1


class Metres(np.ndarray):
    pass


class Text(str):
    pass


POINT = collections.namedtuple("Point", "x y")(1, 2)
ENDLESS: list = []
ENDLESS.append(ENDLESS)
STRUCTURE = np.array([(1, [2.5, 3.5])], [("a", ">i4"), ("b", "<f4", (2,))])


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        10**100,
        1 + 2j,
        complex(-0.0, float("inf")),
        bytearray(b"ab"),
        "\ud800 \ud83d\ude00 😀 \r\n",
        np.str_("text"),
        np.str_(""),
        np.bytes_(b"ab"),
        np.array(["text", "", "\ud800"]),
        np.array([b"a", b"bcd"]).astype(">S4"),
        np.array(["x"], ">U3"),
        np.zeros(3, "V5"),
        STRUCTURE,
        STRUCTURE[0],
        np.zeros((0, 2), STRUCTURE.dtype),
        np.datetime64("NaT"),
        np.array([2**62], "m8[25us]"),
        np.longdouble(1) / 3,
        {None: 1, (1, ("a", b"b")): 2, b"t": 3, 2**70: 4, 1j: 5, np.int8(3): 6, "": 7, -1.5: 8},
        [{b"o": [[1], [2]]}, {3: b"t"}, ((), ([],), {})],
        np.array([[b"a", 2**80], [(1,), np.arange(2)]], object),
    ],
    ids=str,
)
def test_values_that_keep_their_type(value):
    assert difference(value, there_and_back(value)) is None
    assert difference([(value,)], there_and_back([(value,)])) is None


def test_a_map_of_a_file_arrives_as_an_array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert_same(np.arange(3), there_and_back(mapped))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, {"a": [object()]}], r"value\[1\]\['a'\]\[0\]: an object of type builtins.object cannot be sent"),
        ({"a": {(1, Text("x")): 2}}, r"value\['a'\]\[\(1, 'x'\)\]\[1\]: an object of type .*Text cannot"),
        ([np.ma.masked_array([1, 2], [0, 1])], r"value\[0\]: a masked array .*; send its data and its mask"),
        ([np.ma.masked], "masked array cannot be sent"),
        (
            [np.arange(2).view(Metres)],
            r"an array of the class .*Metres cannot be sent; send numpy.asarray\(array\)",
        ),
        ([STRUCTURE.view(np.recarray)], "an array of the class numpy.*recarray cannot be sent"),
        ([np.zeros(1, np.dtype("i1,i8", align=True))], "an array of dtype .* a dict of the fields"),
        ([np.zeros(1, [(("title", "a"), "i4")])], "an array of dtype .* a dict of the fields"),
        ([np.zeros(1, [("a", "O")])], "an array of dtype .* a dict of the fields"),
        ([np.zeros(1, "V0")], "an array of dtype .* a dict of the fields"),
        ([np.bytes_(b"a\0")], r"value\[0\]: a NumPy scalar .* trailing zero cannot be sent; send a str"),
        ([np.array([1, {2}], object)], r"value\[0\]\[1\]: an object of type builtins.set cannot be sent"),
        ([memoryview(b"ab")], r"a memoryview cannot be sent; send bytes\(view\)"),
        ([msgpack.ExtType(1, b"ab")], "ExtType cannot be sent"),
        ([msgpack.Timestamp(1)], "Timestamp cannot be sent"),
        ([collections.OrderedDict(a=1)], "collections.OrderedDict cannot be sent"),
        ([fractions.Fraction(1, 2)], "Fraction cannot be sent"),
        ([Colour.RED], "Colour cannot be sent"),
        ([POINT], "Point cannot be sent"),
        ([lambda: None], "function cannot be sent"),
        ([0] * (2**20 + 1), "a list of 1048577 items cannot be sent, the limit is 1048576"),
        (dict.fromkeys(range(2**20 + 1)), "a dict of 1048577 items cannot be sent, the limit is 1048576"),
        (np.empty(2**20 + 1, object), "a list of 1048577 items cannot be sent, the limit is 1048576"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_an_unsendable_part_is_named_with_its_place(value, message):
    with pytest.raises(SendError, match=message):
        pack_message(value)


def test_a_list_that_holds_itself_is_refused():
    with pytest.raises(SendError, match="cannot be sent"):
        pack_message(ENDLESS)


def with_version(number):
    (frame,) = pack_message(1)
    return [frame[:4] + number.to_bytes(2, "little") + frame[6:]]


def body(value):
    """A message with any body of msgpack."""
    (frame,) = pack_message(1)
    return [frame[:12] + msgpack.packb(value)]


def described(*parts):
    return body(msgpack.ExtType(1, msgpack.packb(parts)))


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "not a message: the first one is shorter than the header"),
        ([b"short"], "not a message: the first one is shorter than the header"),
        ([b"GET / HTTP/1.1\r\n"], "not a message: they begin with b'GET '"),
        (with_version(2), "a message of version 2 was received, and this release reads"),
        ([*pack_message(1), b"more"], "a message with 0 array frames was received with only 1"),
        ([pack_message("text")[0][:-1]], "the body of a message cannot be read"),
        ([pack_message("text")[0] + b"\0"], "the body of a message cannot be read"),
        (body(msgpack.ExtType(77, b"")), "an extension of type 77"),
        (body(msgpack.ExtType(3, b"x")), "an extension of type 3"),
        (body(msgpack.ExtType(5, b"x")), "the body of a message cannot be read"),
        (body({msgpack.ExtType(3, b"t"): 5}), "the body of a message cannot be read"),
        (body({msgpack.ExtType(3, b"o"): [[2, 2], [1]]}), "an object array .* and 1 items"),
        (described("O", [1], b"12345678"), "has the dtype 'O', which does not hold plain values"),
        (described("<i4,<i4", [1], b"12345678"), "does not hold plain values"),
        (described("<f3", [1], b"123"), "the body of a message cannot be read"),
        (described("<f8", [2**40], b"12345678"), "thus 8796093022208 bytes; received 8"),
        (described("<f8", [-1, -1], b"12345678"), "has the shape"),
        (described("<U0", [2**40], b""), "values without bytes"),
        (described("<f8", [1] * 40, b"12345678"), "has the shape"),
        (described("<f8", [0, 2**63], b""), "the body of a message cannot be read"),
        (described("<f8", [1], None), "has no frame with its bytes"),
        (described("<f8", [1], 5), "the body of a message cannot be read"),
        (described("<f8", 3), "has unexpected parts"),
    ],
)
def test_an_invalid_message_is_rejected(frames, message):
    with pytest.raises(MessageError, match=message) as caught:
        unpack_message(frames)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, DataFlowError)


def test_frames_that_belong_to_no_array_are_refused():
    head, frame = pack_message(np.zeros(1000))
    with pytest.raises(MessageError, match="frames without an array"):
        unpack_message([head[:8] + (2).to_bytes(4, "little") + head[12:], frame, frame])


def test_messages_larger_than_allowed_are_refused():
    frames = pack_message(np.zeros(1000))
    with pytest.raises(MessageError, match="the limit is 8000"):
        unpack_message(frames, max_bytes=8000)
    assert len(unpack_message(frames, max_bytes=9000)) == 1000


def test_claimed_lengths_allocate_nothing_beyond_a_bound():
    """Each level of nesting claims four billion items."""
    (frame,) = pack_message(1)
    with pytest.raises(MessageError, match="cannot be read"):
        unpack_message([frame[:12] + b"\xdd\xff\xff\xff\xff" * 200])


@given(st.lists(st.binary(max_size=40), max_size=3))
def test_garbage_is_refused(frames):
    with pytest.raises(MessageError):
        unpack_message(frames)


@given(VALUES, st.data())
def test_damaged_messages_are_refused_or_read_as_some_value(value, data):
    """No other exception leaves the reader, whichever bytes have changed."""
    frames = [bytearray(frame) for frame in pack_message(value)]
    frame = data.draw(st.sampled_from(frames))
    for _ in range(data.draw(st.integers(1, 4))):
        if frame:
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, len(frame))) :]
    with contextlib.suppress(MessageError):
        unpack_message(frames)
