"""Keys, values and images of LMDB files; files of other formats."""

import os
import pickle
import shutil
import struct
import sys
import threading

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    CaffeLMDB,
    FormatError,
    JoinData,
    LMDBData,
    LMDBDataDecoder,
    MapData,
    MultiProcessRunner,
)
from towerpack_dataflow.testing import check_dataflow

pytest.importorskip("msgpack")
lmdb = pytest.importorskip("lmdb")

RECORDS = {f"{k:08d}".encode(): f"value {k}".encode() for k in range(20)}


def write(path, records, subdir=False):
    with (
        lmdb.open(str(path), subdir=subdir, map_size=2**24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            transaction.put(key, value)
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "data.lmdb", RECORDS)


@pytest.fixture
def original(tmp_path):
    """With keys as Tensorpack lists them, in a folder."""
    listed = pickle.dumps(list(RECORDS), -1)
    return write(tmp_path / "folder", {**RECORDS, b"__keys__": listed}, subdir=True)


def pairs(flow):
    return dict(flow)


def decoded(key, value):
    return [int(key), value]


def test_it_keeps_the_promises_of_a_flow(path, original):
    for flow in (LMDBData(path), LMDBData(original, shuffle=False), LMDBData(path, keys="{:08d}")):
        check_dataflow(flow, positions=4)
        assert pairs(flow) == RECORDS
    check_dataflow(LMDBDataDecoder(LMDBData(path), decoded), positions=4)
    assert repr(LMDBData(path)) == f"LMDBData(lmdb_path={path} of 20 records)"


def test_keys(path):
    some = ["00000003", b"00000001"]
    assert [key for key, _ in LMDBData(path, shuffle=False, keys=some)] == [b"00000003", b"00000001"]
    with pytest.raises(
        FormatError, match=r"data\.lmdb, record b'7': the record does not exist; pass the keys"
    ):
        list(LMDBData(path, keys=["7"]))
    with pytest.raises(ArgumentError, match="a format string with a field for a number"):
        LMDBData(path, keys="{name}")


def test_a_decoder_may_drop(path):
    flow = LMDBDataDecoder(
        LMDBData(path, shuffle=False), lambda key, value: [int(key)] if int(key) % 2 else None
    )
    assert list(flow) == [[k] for k in range(1, 20, 2)]
    with pytest.raises(TypeError, match="takes a function of key and value; received str"):
        LMDBDataDecoder(LMDBData(path), "decode")


def test_several_flows_and_threads_share_a_file(path):
    flow = LMDBData(path, shuffle=False)
    joined = JoinData([MapData(flow, list), LMDBData(path, shuffle=False)])
    assert next(iter(joined)) == [b"00000000", b"value 0"] * 2
    found = []
    threads = [threading.Thread(target=lambda: found.append(pairs(flow))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [RECORDS] * 3


@pytest.mark.slow
def test_workers_open_the_file_themselves(path):
    flow = BatchData(LMDBDataDecoder(LMDBData(path), decoded), 4)
    flow.seed(1)
    expected = [batch[0].tolist() for batch in flow]
    runner = MultiProcessRunner(BatchData(LMDBDataDecoder(LMDBData(path), decoded), 4), 2)
    runner.seed(1)
    assert [batch[0].tolist() for batch in runner] == expected


def test_a_forked_process_reads_on(path):
    flow = LMDBData(path, shuffle=False)
    next(iter(flow))
    if (child := os.fork()) == 0:
        os._exit(0 if pairs(flow) == RECORDS else 1)
    assert os.waitpid(child, 0)[1] == 0


def damaged(path, offset, content):
    raw = bytearray(path.read_bytes())
    raw[offset : offset + len(content)] = content
    path.write_bytes(raw)


def test_files_that_cannot_be_read(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        LMDBData(tmp_path / "missing")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FormatError, match="empty: the file is empty, or truncated"):
        LMDBData(tmp_path / "empty")
    (tmp_path / "text").write_bytes(b"text " * 4000)
    with pytest.raises(FormatError, match="text: not a little-endian LMDB file"):
        LMDBData(tmp_path / "text")
    other = shutil.copy(path, tmp_path / "version")
    damaged(other, 20, struct.pack("<I", 999))
    with pytest.raises(FormatError, match="version 999 of LMDB's format, but only version 1"):
        LMDBData(other)
    short = shutil.copy(path, tmp_path / "short")
    os.truncate(short, short.stat().st_size - 1)
    with pytest.raises(FormatError, match="short: the file is truncated"):
        LMDBData(short)
    damaged(path, 40, struct.pack("<I", 77))
    with pytest.raises(FormatError, match="pages of 256 to 65536 bytes; found 77"):
        LMDBData(path)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(path):
    path.chmod(0)
    with pytest.raises(PermissionError, match=r"data\.lmdb"):
        LMDBData(path)


def test_a_file_that_was_replaced(path, tmp_path):
    flow = LMDBData(path)
    write(tmp_path / "new", {b"00000000": b"other"}).replace(path)
    with pytest.raises(
        FormatError, match=r"replaced or changed: the flow was created for 20 records.*found 1"
    ):
        list(flow)


@pytest.mark.parametrize("keys", [b"garbage", pickle.dumps(7), pickle.dumps([1])])
def test_invalid_keys(tmp_path, keys):
    path = write(tmp_path / "bad", {b"__keys__": keys, b"a": b"1"})
    with pytest.raises(FormatError, match="bad, record b'__keys__'"):
        LMDBData(path)
    assert list(LMDBData(path, keys=["a"])) == [[b"a", b"1"]]


def test_an_empty_database(tmp_path):
    assert list(LMDBData(write(tmp_path / "none", {}))) == []


def test_a_missing_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(
        ImportError, match=r"needs the extra \[lmdb\]: pip install 'towerpack-dataflow\[lmdb\]'"
    ):
        LMDBData(path)


# A Datum of 2 x 3 pixels of 2 channels and label 5, as Caffe's protobuf writes it.
DATUM = bytes([8, 2, 16, 2, 24, 3, 34, 12, *range(12), 40, 5])
FLOATS = bytes([8, 1, 16, 1, 24, 2, 40, 1, 50, 8]) + np.array([0.5, 1.5], "<f4").tobytes()


def test_caffe(tmp_path):
    path = write(tmp_path / "caffe", {b"00000000_a": DATUM, b"00000001_b": FLOATS})
    flow = CaffeLMDB(path, shuffle=False)
    check_dataflow(flow)
    (image, label), (floats, _) = flow
    assert (image.shape, image.dtype, label) == ((2, 3, 2), np.uint8, 5)
    np.testing.assert_array_equal(image[..., 0], np.arange(6).reshape(2, 3))
    assert (floats.dtype, floats.tolist()) == (np.float32, [[[0.5], [1.5]]])


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (DATUM[:-4], "not a Datum"),
        (DATUM + bytes([56, 1]), "encoded image; read it with LMDBDataDecoder"),
        (bytes([8, 9]) + DATUM[2:], r"\(9, 2, 3\), but 12 values"),
        (bytes([50, 3, 1, 2, 3]), "not a multiple of 4"),
    ],
)
def test_values_that_are_no_datum(tmp_path, value, found):
    with pytest.raises(FormatError, match=rf"caffe, record b'a': the .*{found}"):
        list(CaffeLMDB(write(tmp_path / "caffe", {b"a": value})))
