"""Flows as LMDB files, and files written by Tensorpack."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from towerpack_dataflow import (
    DataFromGenerator,
    DataFromList,
    FormatError,
    LMDBData,
    LMDBSerializer,
    SendError,
)
from towerpack_dataflow.testing import check_dataflow

pytest.importorskip("msgpack")
lmdb = pytest.importorskip("lmdb")

POINTS = [[np.full((k, 3), k, np.float32), {"label": k, "name": str(k)}] for k in range(23)]


def numbers(flow):
    return [point[1]["label"] for point in flow]


def test_a_round_trip(tmp_path):
    path = tmp_path / "points.lmdb"
    LMDBSerializer.save(DataFromList(POINTS, shuffle=False), path, write_frequency=10)
    assert [file.name for file in tmp_path.iterdir()] == ["points.lmdb"]
    flow = LMDBSerializer.load(path, shuffle=False)
    for found, point in zip(flow, POINTS):
        np.testing.assert_array_equal(found[0], point[0])
        assert found[1] == point[1]
    found[0][:] = 0  # it may be written to
    check_dataflow(flow, positions=4)
    shuffled = LMDBSerializer.load(path)
    check_dataflow(shuffled, positions=4)
    assert sorted(numbers(shuffled)) == list(range(23))
    assert [key for key, _ in LMDBData(path, shuffle=False)][:2] == [b"00000000", b"00000001"]


def test_a_stream_into_a_folder(tmp_path):
    LMDBSerializer.save(DataFromGenerator(lambda: iter(POINTS)), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["data.mdb"]
    assert numbers(LMDBSerializer.load(tmp_path, shuffle=False)) == list(range(23))


def test_a_file_that_exists_is_replaced_at_once(tmp_path):
    LMDBSerializer.save(POINTS, tmp_path / "points.lmdb")
    before = LMDBSerializer.load(tmp_path / "points.lmdb", shuffle=False)
    datapoints = iter(before)
    next(datapoints)
    LMDBSerializer.save(POINTS[:5], tmp_path / "points.lmdb")
    assert len(list(datapoints)) == 22  # of the old one, which is open
    assert numbers(LMDBSerializer.load(tmp_path / "points.lmdb", shuffle=False)) == list(range(5))
    with pytest.raises(SendError):
        LMDBSerializer.save([[object()]], tmp_path / "points.lmdb")
    assert numbers(LMDBSerializer.load(tmp_path / "points.lmdb", shuffle=False)) == list(range(5))


def test_no_file_is_left_by_a_failure(tmp_path):
    with pytest.raises(SendError, match=r"value\[0\]: an object of type") as caught:
        LMDBSerializer.save([[1], [object()]], tmp_path / "points.lmdb")
    assert "while writing datapoint 1 to" in caught.value.__notes__[0]
    with pytest.raises(ZeroDivisionError):
        LMDBSerializer.save(DataFromGenerator(lambda: (1 / 0 for _ in "x")), tmp_path / "points.lmdb")
    assert not list(tmp_path.iterdir())


def test_a_changed_bit_in_a_datapoint_is_refused(tmp_path):
    path = tmp_path / "points.lmdb"
    LMDBSerializer.save([[np.full(5000, 0xABCDEF, np.int64)], [1]], path)
    content = bytearray(path.read_bytes())
    content[content.index((0xABCDEF).to_bytes(8, "little") * 100)] ^= 1
    path.write_bytes(content)
    flow = LMDBSerializer.load(path, shuffle=False)
    with pytest.raises(FormatError, match=r"points.lmdb, record b'0{8}': .*its checksum is wrong"):
        next(iter(flow))


SAVING = """
import os, resource, sys
import numpy as np
from towerpack_dataflow import LMDBSerializer
path, limit, frequency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    LMDBSerializer.save([[np.zeros(20000)] for _ in range(50)], path, write_frequency=frequency)
except OSError as error:
    print(os.strerror(error.errno), error.filename)
"""


def saving(path, limit, frequency):
    arguments = [sys.executable, "-c", SAVING, str(path), str(limit), str(frequency)]
    child = subprocess.run(arguments, capture_output=True, text=True, timeout=100)
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.slow
@pytest.mark.parametrize("frequency", [1, 5000])
def test_a_file_larger_than_allowed_is_an_error_of_the_system(tmp_path, frequency):
    path = tmp_path / "points.lmdb"
    path.write_bytes(b"before")
    assert saving(path, 2**20, frequency) == f"File too large {path}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["points.lmdb"] and path.read_bytes() == b"before"


@pytest.mark.slow
def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only the superuser may mount a small disk")
    try:
        assert (
            saving(tmp_path / "points.lmdb", 0, 5000) == f"No space left on device {tmp_path}/points.lmdb\n"
        )
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_files_written_by_tensorpack(tmp_path):
    path = tmp_path / "old.lmdb"
    keys = [f"{k:08d}".encode() for k in range(3)]
    with (
        lmdb.open(str(path), subdir=False, map_size=2**24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, point in zip(keys, POINTS):
            transaction.put(key, pickle.dumps(point, -1))
        transaction.put(b"__keys__", pickle.dumps(keys, -1))
    flow = LMDBSerializer.load(path, shuffle=False)
    assert numbers(flow) == [0, 1, 2]
    check_dataflow(flow)


def test_a_record_that_cannot_be_decoded_is_named(tmp_path):
    path = tmp_path / "points.lmdb"
    LMDBSerializer.save(POINTS, path)
    with (
        lmdb.open(str(path), subdir=False, map_size=2**24) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.put(b"00000004", pickle.dumps(len))
    flow = LMDBSerializer.load(path, shuffle=False)
    with pytest.raises(FormatError, match=r"points\.lmdb, record b'00000004'.*allow_pickle=True"):
        list(flow)
    trusting = LMDBSerializer.load(path, shuffle=False, allow_pickle=True)
    assert trusting.datapoint(0, 4) is len
