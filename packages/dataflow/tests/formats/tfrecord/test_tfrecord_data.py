"""TFRecord files: written, indexed, read in any order; damaged in every way."""

import contextlib
import copy
import gzip
import os
import shutil
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromList,
    FormatError,
    MultiProcessRunner,
    SendError,
    TFRecordData,
    TFRecordSerializer,
    decode_example,
    encode_example,
    index_tfrecord,
    write_tfrecord,
)
from towerpack_dataflow.testing import check_dataflow

pytest.importorskip("crc32c")
pytest.importorskip("msgpack")

RECORDS = [bytes([k]) * (k * 7) for k in range(30)]
# Record b"abc" as TensorFlow 2.21 writes it.
BY_TENSORFLOW = bytes.fromhex("0300000000000000b099490e6162636e57f121")


@pytest.fixture
def path(tmp_path):
    write_tfrecord(RECORDS, tmp_path / "data.tfrecord")
    return tmp_path / "data.tfrecord"


def first(record):
    return [len(record), bytes(record[:1])]


def test_the_bytes_are_tensorflows(tmp_path):
    write_tfrecord([b"abc"], tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == BY_TENSORFLOW
    assert list(TFRecordData(tmp_path / "one")) == [[b"abc"]]


def test_it_keeps_the_promises_of_a_flow(path):
    for flow in (TFRecordData(path), TFRecordData(path, shuffle=True), TFRecordData(path, first)):
        check_dataflow(flow, positions=4)
    assert [record for (record,) in TFRecordData(path)] == RECORDS
    assert sorted(record for (record,) in TFRecordData(path, shuffle=True)) == sorted(RECORDS)
    assert repr(TFRecordData(path)) == f"TFRecordData(path={path} of 30 records)"
    with pytest.raises(TypeError, match="decoder is a function of a record's bytes; received str"):
        TFRecordData(path, "decode")


def test_long_files_are_read_in_several_blocks(tmp_path):
    records = [bytes(2**20 + k) for k in range(10)]
    write_tfrecord(records, tmp_path / "long")
    (tmp_path / "long.index").unlink()
    flow = TFRecordData(tmp_path / "long")
    assert [len(record) for (record,) in flow] == list(map(len, records))
    flow.load_state_dict(flow.state_at(7))
    assert [len(record) for (record,) in flow] == list(map(len, records[7:]))


@pytest.mark.slow
def test_workers_open_the_file_themselves(path):
    runner = MultiProcessRunner(BatchData(TFRecordData(path, first), 5), 2)
    assert [size for batch in runner for size in batch[0]] == list(map(len, RECORDS))


def test_datapoints_in_and_out(tmp_path):
    points = [[np.full(2000, k), k, {"name": str(k)}] for k in range(12)]
    TFRecordSerializer.save(DataFromList(points, shuffle=False), tmp_path / "points")
    flow = TFRecordSerializer.load(tmp_path / "points")
    check_dataflow(flow, positions=4)
    assert [point[1:] for point in flow] == [point[1:] for point in points]
    longer = TFRecordSerializer.load(tmp_path / "points", size=17)
    for _ in range(2):
        assert len([point[1] for point in longer]) == 17
    with pytest.raises(SendError) as caught:
        TFRecordSerializer.save([[1], [object()]], tmp_path / "bad")
    assert "while writing datapoint 1 to" in caught.value.__notes__[0]
    assert {file.name for file in tmp_path.iterdir()} == {"points", "points.index"}


def test_records_are_bytes(tmp_path):
    with pytest.raises(TypeError, match="records are bytes; received list for record 1"):
        write_tfrecord([b"", [1]], tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_a_record_that_the_decoder_refuses_is_named(path):
    with pytest.raises(
        FormatError, match=r"data\.tfrecord, record 1: the record is not a tf\.train\.Example"
    ):
        list(TFRecordData(path, decode_example))


# ---- the index


def test_without_an_index_the_file_is_scanned(path):
    index = path.with_name("data.tfrecord.index")
    written = index.read_bytes()
    index.unlink()
    assert [record for (record,) in TFRecordData(path)] == RECORDS
    assert not index.exists()
    assert index_tfrecord(path) == 30
    assert index.read_bytes() == written


def test_a_replaced_file_is_noticed(path, tmp_path, caplog):
    flow, shuffled = TFRecordData(path), TFRecordData(path, shuffle=True)
    shutil.copy(path.with_name("data.tfrecord.index"), tmp_path / "kept")
    write_tfrecord(RECORDS[5:], path)
    for made_before in (flow, shuffled):
        with pytest.raises(FormatError, match=r"replaced or changed.*create it again"):
            list(made_before)
    shutil.copy(tmp_path / "kept", path.with_name("data.tfrecord.index"))
    assert [record for (record,) in TFRecordData(path)] == RECORDS[5:]
    assert "is outdated, or has another version" in caplog.text


def test_a_file_of_the_same_size_is_noticed_by_its_time(path, caplog):
    status = path.stat()
    write_tfrecord(RECORDS[::-1], path)
    index_tfrecord(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 1))
    assert [record for (record,) in TFRecordData(path)] == RECORDS[::-1]
    assert "is outdated, or has another version" in caplog.text


def test_an_index_of_another_version_is_left_alone(path, caplog):
    index = path.with_name("data.tfrecord.index")
    raw = bytearray(index.read_bytes())
    raw[8] = 9
    index.write_bytes(raw)
    assert len(TFRecordData(path)) == 30
    assert "is outdated, or has another version" in caplog.text


@given(data=st.data())
def test_a_damaged_index_is_refused_or_still_right(data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "indexed"
    if not folder.exists():
        folder.mkdir()
        write_tfrecord(RECORDS, folder / "data")
    index = folder / "data.index"
    good = index.read_bytes()
    raw = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
        raw[place] = data.draw(st.integers(0, 255))
    index.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        assert [record for (record,) in TFRecordData(folder / "data")] == RECORDS
    except FormatError as error:
        assert "data.index: the" in str(error)
    finally:
        index.write_bytes(good)


# ---- bad input


def damage(path, place, content=None):
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw if content is None else content)
    path.with_name(path.name + ".index").unlink(missing_ok=True)


def test_a_damaged_record_is_named(path):
    index = path.with_name("data.tfrecord.index").read_bytes()
    damage(path, 16 + 12)
    path.with_name("data.tfrecord.index").write_bytes(index)
    flow = TFRecordData(path)
    with pytest.raises(FormatError, match=r"data\.tfrecord, record 1: its bytes are damaged: their checksum"):
        list(flow)
    assert flow.datapoint(0, 2) == [RECORDS[2]]


def test_a_damaged_length(path):
    damage(path, 16)
    with pytest.raises(
        FormatError, match=r"data\.tfrecord, record 1, at byte 16: the checksum of its length"
    ):
        TFRecordData(path)


def test_a_huge_length(path):
    import crc32c

    length = struct.pack("<Q", 2**62)
    crc = crc32c.crc32c(length)
    masked = struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    damage(path, 0, length + masked)
    with pytest.raises(FormatError, match=r"record 0, at byte 0: the record needs .* it is truncated"):
        TFRecordData(path)


@pytest.mark.parametrize("size", [1, 15, 17, 38, 1000])
def test_a_truncated_file(path, size):
    damage(path, 0, path.read_bytes()[:size])
    with pytest.raises(FormatError, match=r"data\.tfrecord, record \d+, at byte \d+: the record needs"):
        TFRecordData(path)


def test_a_compressed_file(path):
    damage(path, 0, gzip.compress(path.read_bytes()))
    with pytest.raises(FormatError, match=r"compressed as a whole \(GZIP\).*decompress it first"):
        TFRecordData(path)


def test_empty_and_missing_files(path, tmp_path):
    damage(path, 0, b"")
    assert list(TFRecordData(path)) == []
    with pytest.raises(FileNotFoundError):
        TFRecordData(tmp_path / "missing")


@given(data=st.data())
def test_any_damage_is_refused(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    write_tfrecord(RECORDS[:5], path)
    raw = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    damage(path, 0, bytes(raw))
    with pytest.raises(FormatError):
        list(TFRecordData(path))


@given(raw=st.binary(max_size=64))
def test_any_bytes_are_refused(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(raw)
    with contextlib.suppress(FormatError):
        assert len(list(TFRecordData(path))) * 16 <= len(raw)


def test_a_missing_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-dataflow\[tfrecord\]'"):
        TFRecordData(path)


def test_examples_are_read_as_dicts(tmp_path):
    write_tfrecord([encode_example({"k": k}) for k in range(4)], tmp_path / "examples")
    flow = TFRecordData(tmp_path / "examples", decode_example)
    check_dataflow(flow)
    assert [point["k"].tolist() for point in flow] == [[0], [1], [2], [3]]


def test_a_file_elsewhere_is_read_through_its_url(path, tmp_path):
    assert [record for (record,) in TFRecordData(path.as_uri(), shuffle=False)] == RECORDS
    moved = copy.deepcopy(TFRecordData(os.path.relpath(path)))
    assert moved.datapoint(0, 3) == [RECORDS[3]]
    path.with_name("data.tfrecord.index").unlink()
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/far.tfrecord", path.read_bytes())
    flow = TFRecordData("memory://far.tfrecord")
    assert [record for (record,) in flow] == RECORDS
    write_tfrecord(RECORDS, tmp_path / "indexed")
    fsspec.filesystem("memory").pipe("/far.tfrecord.index", (tmp_path / "indexed.index").read_bytes())
    check_dataflow(TFRecordData("memory://far.tfrecord"), positions=3)


def test_an_index_elsewhere_of_another_file_of_its_size_is_left_alone(tmp_path, caplog):
    fsspec = pytest.importorskip("fsspec")
    write_tfrecord([b"one", b"three"], tmp_path / "old")
    write_tfrecord([b"three", b"two"], tmp_path / "new")
    files = {"/swapped.tfrecord": "new", "/swapped.tfrecord.index": "old.index"}
    for name, content in files.items():
        fsspec.filesystem("memory").pipe(name, (tmp_path / content).read_bytes())
    assert list(TFRecordData("memory://swapped.tfrecord")) == [[b"three"], [b"two"]]
    assert "is outdated, or has another version" in caplog.text
