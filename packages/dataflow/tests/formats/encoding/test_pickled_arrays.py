"""Pickles from untrusted sources yield plain data and have no side effects."""

import contextlib
import itertools
import os
import pickle
import pickletools
import struct
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from any_datapoints import datapoints, difference
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import FormatError

pytest.importorskip("msgpack")
from towerpack_dataflow.formats.encoding import decode_stored

EXAMPLES = settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 50)), deadline=None)
ALLOWED = [
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
    ("builtins", "bytearray"),
    ("builtins", "bytes"),
    ("builtins", "complex"),
    ("builtins", "frozenset"),
    ("__builtin__", "set"),
    ("collections", "OrderedDict"),
]
OTHERS = [
    ("builtins", "eval"),
    ("builtins", "getattr"),
    ("os", "system"),
    ("numpy", "load"),
    ("numpy", "memmap"),
    ("numpy", "void"),
    ("numpy.core.multiarray", "dtype"),
    ("numpy.dtypes", "VoidDType"),
    ("copyreg", "_reconstructor"),
    ("builtins.list", "append"),
    ("", ""),
]


def u4(number):
    return struct.pack("<I", number)


def one_byte(code):
    return bytes([code])


def u8(number):
    return struct.pack("<Q", number)


def text(value):
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + u4(len(raw)) + raw


def global_(place):
    return f"c{place[0]}\n{place[1]}\n".encode()


NAMES = st.sampled_from(ALLOWED) | st.sampled_from(OTHERS)
SIZES = st.sampled_from([0, 1, 2, 8, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1])
INTEGERS = st.integers(-3, 70) | SIZES
DTYPES = st.sampled_from(
    ["f8", "i1", "O", "O8", "V8", "V16", "U2", "S1", "M8", "m8", "b1", "U0", "V0", "x", ""]
)


def pushed(value):
    """The opcodes that push a value, without the ones around them."""
    return pickle.dumps(value, 2)[2:-1]


WORDS = st.sampled_from(["<", "|", ">", "O", "latin1", "C", "F", "K", "a", "f8", "V8"])
VALUES = st.none() | st.booleans() | INTEGERS | st.floats() | WORDS | DTYPES | st.binary(max_size=16)
PUSHES = st.recursive(
    VALUES.map(pushed),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: b"(" + b"".join(parts) + b"t"),
        st.lists(inner, max_size=4).map(lambda parts: b"](" + b"".join(parts) + b"e"),
        st.lists(st.tuples(WORDS.map(pushed), inner), max_size=3).map(
            lambda pairs: b"}(" + b"".join(key + value for key, value in pairs) + b"u"
        ),
    ),
    max_leaves=5,
)


@st.composite
def dtypes(draw, depth=2):
    """The opcodes of a dtype with an arbitrary state."""
    fields = b"N"
    names = b"N"
    if depth and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from("abc"), max_size=3))
        names = pushed(tuple(chosen)) if draw(st.booleans()) else draw(PUSHES)
        parts = [
            pushed(name) + b"(" + draw(dtypes(depth - 1)) + draw(INTEGERS.map(pushed)) + b"t"
            for name in chosen
        ]
        fields = b"}(" + b"".join(parts) + b"u"
    base = b"(" + draw(dtypes(depth - 1)) + draw(PUSHES) + b"t" if depth and draw(st.booleans()) else b"N"
    state = [
        pushed(3),
        WORDS.map(pushed),
        base,
        names,
        fields,
        INTEGERS.map(pushed),
        pushed(1),
        INTEGERS.map(pushed),
    ]
    parts = [draw(part) if isinstance(part, st.SearchStrategy) else part for part in state]
    extra = draw(PUSHES) if draw(st.booleans()) else b""
    call = global_(("numpy", "dtype")) + draw(DTYPES.map(pushed)) + b"\x89\x88\x87R"
    return call + (b"(" + b"".join(parts) + extra + b"tb" if draw(st.booleans()) or depth < 2 else b"")


@st.composite
def arrays(draw):
    """The opcodes of an array, or of a scalar, with arbitrary parts."""
    dtype, content = draw(dtypes()), draw(st.binary(max_size=24).map(pushed) | PUSHES)
    shape = draw(st.lists(INTEGERS, max_size=3).map(tuple).map(pushed) | PUSHES)
    kind = draw(st.sampled_from(["built", "buffer", "scalar"]))
    if kind == "scalar":
        return global_(("numpy.core.multiarray", "scalar")) + dtype + content + b"\x86R"
    if kind == "buffer":
        call = global_(("numpy.core.numeric", "_frombuffer"))
        return call + b"(" + content + dtype + shape + draw(WORDS.map(pushed)) + b"tR"
    begun = global_(("numpy.core.multiarray", "_reconstruct")) + global_(("numpy", "ndarray")) + pushed((0,))
    return begun + b"C\x01b\x87R(K\x01" + shape + dtype + b"\x89" + content + b"tb"


CHUNKS = st.one_of(
    PUSHES,
    dtypes(),
    arrays(),
    NAMES.map(global_),
    NAMES.map(lambda place: text(place[0]) + text(place[1]) + b"\x93"),
    st.sampled_from(list(b"(01.2)]}R\x81\x92b\x85\x86\x87tldeusaQo\x8f\x90\x91\x94\x97\x98")).map(one_byte),
    st.sampled_from([b"i__main__\nX\n", b"P12\n", b"I5\n", b"L5L\n", b"F1\n", b"S'a'\n", b"Va\n", b"g0\n"]),
    st.sampled_from([b"\x82\x01", b"\x83\x01\0", b"\x84\x01\0\0\0"]),
    SIZES.map(lambda size: b"\x95" + u8(size)),
    st.tuples(st.sampled_from([b"\x8d", b"\x8e", b"\x96"]), SIZES).map(lambda both: both[0] + u8(both[1])),
    st.tuples(st.sampled_from(list(b"BXT\x8brj")), st.sampled_from([0, 1, 2, 2**31 - 1, 2**32 - 1])).map(
        lambda both: one_byte(both[0]) + u4(both[1])
    ),
    st.tuples(st.sampled_from(list(b"qhCU\x8c\x8a")), st.integers(0, 3)).map(bytes),
    st.binary(max_size=3),
)  # fmt: skip
PROGRAMS = st.lists(CHUNKS, max_size=10).map(lambda chunks: b"\x80\x04" + b"".join(chunks) + b".")


@pytest.fixture(scope="module")
def reader():
    """A process that decodes pickles; a function that fails unless it says all is well."""
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("pickle_reader.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"ready\n"

        def read(raw):
            process.stdin.write(u4(len(raw)) + raw)
            process.stdin.flush()
            head = process.stdout.read(4)
            assert head, f"the process ended with {process.wait()} by {raw!r}"
            answer = process.stdout.read(*struct.unpack("<I", head))
            assert not answer, answer.decode()

        yield read
        process.stdin.close()
        process.wait(30)


@pytest.mark.slow
@EXAMPLES
@given(program=PROGRAMS)
def test_any_opcodes_give_plain_data_or_a_format_error(reader, program):
    reader(program)


@pytest.mark.slow
@EXAMPLES
@given(array=arrays(), before=st.lists(CHUNKS, max_size=1))
def test_arrays_with_any_state_give_plain_data_or_a_format_error(reader, array, before):
    reader(b"\x80\x04" + b"".join(before) + array + b".")


@pytest.mark.slow
@EXAMPLES
@given(data=st.data())
def test_changed_opcodes_give_plain_data_or_a_format_error(reader, data):
    """Opcodes of pickles of arrays are taken out, doubled, swapped or replaced."""
    value = [np.arange(3), np.zeros(2, "i4,f8"), np.array([1, "a"], object), {"a": np.float32(1)}, {1, 2}]
    raw = pickle.dumps(value, data.draw(st.integers(2, 5)))
    places = [place for *_, place in pickletools.genops(raw)] + [len(raw)]
    parts = [raw[begin:end] for begin, end in itertools.pairwise(places)]
    for _ in range(data.draw(st.integers(1, 4))):
        place, other = (data.draw(st.integers(0, len(parts) - 1)) for _ in range(2))
        parts[place] = data.draw(st.sampled_from([b"", parts[place] * 2, parts[other]]) | CHUNKS)
    reader(b"".join(parts))


def called(place, *arguments):
    return global_(place) + b"(" + b"".join(arguments) + b"tR"


OBJECTS = called(("numpy", "dtype"), pushed("O8"), b"\x89\x88")
OBJECTS += b"(" + pushed(3) + pushed("|") + b"NNN" + pushed(-1) * 2 + pushed(63) + b"tb"
STATE = pushed(3) + pushed("|") + b"N" + pushed(("a",)) + b"}" + pushed("a") + OBJECTS + b"K\0\x86s"
POINTERS = called(("numpy", "dtype"), pushed("V8"), b"\x89\x88") + b"(" + STATE + b"K\x08K\x01K\0tb"
NESTED = (
    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\x01b\x87R(K\x01K\x01\x85"
    + OBJECTS
    + b"\x89]"
)
RAW, SCALAR = b"C\x08AAAAAAAA", ("numpy.core.multiarray", "scalar")
MANY = 2**16


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            called(("numpy._core.numeric", "_frombuffer"), RAW, POINTERS, pushed((1,)), pushed("C")),
            id="a structure with a pointer",
        ),
        pytest.param(called(SCALAR, POINTERS, RAW), id="a scalar with one"),
        pytest.param(called(SCALAR, OBJECTS, RAW), id="an object of bytes"),
        pytest.param(NESTED.replace(b"K\x01\x85", b"K\x7f\x85") + b"tb", id="too few objects"),
        pytest.param(global_(("numpy", "dtype")), id="a class as the datapoint"),
        pytest.param(b"]" + global_(("numpy", "ndarray")) + b"a", id="a class in the datapoint"),
        pytest.param(called(("numpy", "dtype"), pushed("f8"), b"\x89\x88"), id="a dtype without its state"),
        pytest.param(b"})" + b"\x85" * MANY + b"Ns", id="a key that is deep"),
        pytest.param(b"})" + b"q\0h\0\x86" * 64 + b"Ns", id="a key that doubles with each level"),
        pytest.param(b"(" * 2**12 + b"\x91" * 2**12, id="sets within sets"),
        pytest.param((NESTED * 200)[:-1] + b"]" + b"N" + b"atb" * 200, id="arrays within arrays"),
        pytest.param(b"\x96" + u8(2**40), id="a bytearray that claims a terabyte"),
        pytest.param(b"\x8e" + u8(2**63), id="bytes that claim more than there is"),
        pytest.param(
            b"cbuiltins\nset\nq\0](" + b"N" * MANY + b"eq\x01(" + b"h\0h\x01\x85R" * 2**12 + b"t",
            id="one content for many calls",
        ),
    ],
)  # fmt: skip
def test_attacks_are_rejected(reader, program):
    with pytest.raises(FormatError, match=r"cannot be read|allow_pickle=True"):
        decode_stored(b"\x80\x04" + program + b".")
    reader(b"\x80\x04" + program + b".")


def test_a_place_in_the_memo_takes_no_memory_for_those_before_it(reader):
    reader(b"\x80\x04Nr\xff\xff\xff\x7f.")
    assert decode_stored(b"\x80\x04Nr\xff\xff\xff\x7f.") is None


def test_depth_alone_is_no_harm(reader):
    reader(b"\x80\x04" + b"]" * MANY + b"a" * (MANY - 1) + b".")
    reader(b"\x80\x04)" + b"\x85" * MANY + b".")


KEPT = [
    np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    np.array([(1, (b"x", [1, 2]))], [("a", ">i4"), ("b", [("x", "S3"), ("y", "i2", (2,))])]),
    np.zeros(2, np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [4], "itemsize": 16})),
    np.array([1, "a", None, np.arange(3), np.array([1, [2]], object)], object),
    np.array(["2020", "NaT"], "M8[25s]"),
    np.array(["NaT"], "m8"),
    np.str_(""),
    np.array((1, 2.0), "i4,f8")[()],
    np.dtype(">f4"),
    OrderedDict(a=1, b=[2]),
    {(1, "a"): {None: 2.5}},
    "a\ud800",
    frozenset([(1, 2)]),
    list(range(3000)),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_of_all_kinds_are_read(protocol):
    for value in KEPT:
        assert difference(value, decode_stored(pickle.dumps(value, protocol))) is None


def test_empty_bytes_have_no_unset_memory():
    stored = pickle.dumps(np.bytes_(b""), 2)
    np.full(1, 255, np.uint8)  # NumPy takes the next array of a byte from here
    assert decode_stored(stored) == b""


@pytest.mark.slow
@EXAMPLES
@given(value=datapoints(), protocol=st.integers(2, 5))
def test_any_datapoint_is_read_or_refused(value, protocol):
    with contextlib.suppress(FormatError):  # masked arrays
        assert difference(value, decode_stored(pickle.dumps(value, protocol))) is None


def test_a_list_that_holds_itself_is_read():
    value = [1]
    value.append(value)
    found = decode_stored(pickle.dumps(value))
    assert found[1] is found
