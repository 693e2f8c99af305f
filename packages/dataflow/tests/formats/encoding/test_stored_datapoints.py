"""Datapoints in files: our records and those of Tensorpack are read; garbage and programs are rejected."""

import collections
import contextlib
import pickle
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import FormatError, SendError

pytest.importorskip("msgpack")
import msgpack

from towerpack_dataflow.formats.encoding import decode_stored, pack_record, unpack_record

RECONSTRUCT = np.zeros(1).__reduce__()[0]  # where it is depends on the version of NumPy
DATAPOINT = [
    np.arange(12.0).reshape(3, 4),
    np.zeros(5000, "u2"),
    np.zeros((0, 3), "f4"),
    {"label": 7, "name": "seven", "raw": b"\0\1"},
    (None, True, 2.5),
    np.float32(0.5),
]


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one == other
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for part, same in zip(one, other):
            assert_same(part, same)
    else:
        assert one == other


def original(value):
    """Encodes as Tensorpack does by msgpack_numpy 0.4.8."""

    def encode(part):
        if isinstance(part, np.ndarray):
            kind, described = (b"V", part.dtype.descr) if part.dtype.kind == "V" else (b"", part.dtype.str)
            found = {b"nd": True, b"type": described, b"kind": kind}
            return {**found, b"shape": part.shape, b"data": part.tobytes()}
        if isinstance(part, np.generic):
            return {b"nd": False, b"type": part.dtype.str, b"data": part.tobytes()}
        if isinstance(part, complex):
            return {b"complex": True, b"data": repr(part)}
        raise TypeError(type(part))

    return msgpack.packb(value, use_bin_type=True, default=encode)


def test_a_record_holds_its_format_and_restores_the_datapoint():
    record = pack_record(DATAPOINT)
    assert record.startswith(b"TWDP")
    assert_same(unpack_record(record), DATAPOINT)
    found = decode_stored(bytearray(record))
    assert_same(found, DATAPOINT)
    found[1][:] = 1  # a view of the record


def test_an_unsupported_part_is_named():
    with pytest.raises(SendError, match=r"value\[1\]: an object of type .*Opaque"):
        pack_record([1, type("Opaque", (), {})()])


@pytest.mark.parametrize("encode", [original, *(lambda v, p=p: pickle.dumps(v, p) for p in (2, 3, 4, 5))])
def test_records_written_by_tensorpack_are_read(encode):
    found = decode_stored(encode([np.arange(6.0).reshape(2, 3), 3, b"raw", "text", np.int64(5), 1 + 2j]))
    assert_same(found[0], np.arange(6.0).reshape(2, 3))
    assert found[1:] == [3, b"raw", "text", 5, 1 + 2j]
    assert type(found[4]) is np.int64


def test_structured_arrays_of_msgpack_numpy():
    table = np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")])
    assert decode_stored(original([table]))[0] == table


def test_builtin_types_in_pickles():
    value = [{1, 2}, frozenset({3}), bytearray(b"xy"), collections.OrderedDict(a=1), b"", range]
    assert decode_stored(pickle.dumps(value[:-1], 2)) == value[:-1]
    objects = np.array([np.arange(2), "text", None], object)
    np.testing.assert_array_equal(decode_stored(pickle.dumps(objects))[0], [0, 1])
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    assert_same(decode_stored(pickle.dumps(fortran, 5)), fortran)


class Evil:
    def __reduce__(self):
        return subprocess.call, (["touch", "evil"],)


def test_a_pickle_executes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = pickle.dumps([Evil()])
    inside = msgpack.packb({b"nd": True, b"type": b"O", b"kind": b"O", b"shape": [1], b"data": record})
    for evil in (record, inside):
        with pytest.raises(
            FormatError, match=r"needs subprocess\.call, which could execute.*allow_pickle=True"
        ):
            decode_stored(evil)
    assert not list(tmp_path.iterdir())
    decode_stored(record, allow_pickle=True)
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (bytearray, (2**60,)),
        (RECONSTRUCT, (np.ndarray, (2**50,), b"b")),
        (np.ndarray, ((2**50,),)),
    ],
)
def test_a_pickle_allocates_nothing(call, arguments):
    class Large:
        def __reduce__(self):
            return call, arguments

    with pytest.raises(FormatError, match="cannot be read"):
        decode_stored(pickle.dumps(Large()))


def test_pyarrow_serialization_is_rejected_with_a_command_that_rewrites_it():
    record = struct.pack("<4iI", 0, 0, 1, 0, 0xFFFFFFFF) + bytes(100)
    with pytest.raises(FormatError, match=r"pyarrow 12 and later cannot read(.|\n)*uv run .*pyarrow<12"):
        decode_stored(record)


@pytest.mark.parametrize(
    ("damaged", "found"),
    [
        (b"", "not a datapoint of Towerpack or Tensorpack"),
        (b"hello, this is text", "not a datapoint"),
        (pack_record([1])[:-1], "damaged"),
        (pack_record([1]) + b"\0", "its frames end at"),
        (b"TWDP\x03" + pack_record([1])[5:], "version 3, and this release reads versions 1 and 2"),
        (b"TWDP\x01\0\0\0" + b"\xff" * 8, "do not fit"),
        (pickle.dumps([1, 2, 3])[:-3], "a pickle that cannot be read"),
        (original([np.zeros(3)])[:-1], "not a datapoint"),
        (msgpack.packb({b"nd": True, b"type": "O", b"shape": [1], b"data": b"12345678"}), "dtype 'O'"),
        (msgpack.packb({b"nd": True, b"type": "a8", b"shape": [1], b"data": b"12345678"}), "dtype 'a8'"),
        (msgpack.packb({b"nd": True, b"type": "<f8", b"shape": [2**40], b"data": b""}), "bytes; found 0"),
    ],
)  # fmt: skip
def test_damaged_records(damaged, found):
    with pytest.raises(FormatError, match=found):
        decode_stored(damaged)


@given(st.data())
def test_a_record_with_a_checksum_notices_each_changed_bit(data):
    record = bytearray(pack_record(DATAPOINT, checksum=True))
    assert_same(decode_stored(bytearray(record)), DATAPOINT)
    bit = data.draw(st.integers(0, 8 * len(record) - 1))
    record[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError):
        decode_stored(record)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_decoded_or_refused(raw, behind_magic):
    with contextlib.suppress(FormatError):
        decode_stored(b"TWDP\x01\0\0\0" + raw if behind_magic else raw)


@given(st.data())
def test_any_damage_is_decoded_or_refused(data):
    record = bytearray(data.draw(st.sampled_from([pack_record(DATAPOINT), original([1, np.arange(3)])])))
    for place in data.draw(st.lists(st.integers(0, len(record) - 1), min_size=1, max_size=4)):
        record[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        decode_stored(record)
