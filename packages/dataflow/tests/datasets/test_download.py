"""Downloads: complete, verified, renamed only at the end, and continued after an interruption."""

import hashlib
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from towerpack_dataflow import DatasetError
from towerpack_dataflow.datasets import download

pytestmark = pytest.mark.timeout(180)
CONTENT = bytes(range(256)) * 12000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def whole(server):
    server.content = CONTENT


def test_a_file_comes_once(server, tmp_path):
    path = download(server.url, tmp_path / "new" / "data.bin", MD5)
    assert path.read_bytes() == CONTENT and [entry.name for entry in path.parent.iterdir()] == ["data.bin"]
    assert download(server.url, path, "another") == path and server.ranges == [None]


@pytest.mark.parametrize("honours_ranges", [True, False])
def test_an_interrupted_download_continues(server, tmp_path, honours_ranges):
    server.cut, server.honours_ranges = 1_500_000, honours_ranges
    with pytest.raises(DatasetError, match=r"data.bin is missing.*ended after 1500000 of 3072000 bytes"):
        download(server.url, tmp_path / "data.bin", MD5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.bin.part"]
    server.cut = None
    assert download(server.url, tmp_path / "data.bin", MD5).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1500000-"]


def test_a_part_that_is_whole_needs_no_more(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "data.bin", MD5).read_bytes() == CONTENT


def test_a_wrong_checksum_is_an_error_and_the_next_call_starts_over(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"something else")
    with pytest.raises(DatasetError, match=rf"checksum \(MD5\) [0-9a-f]+, expected {MD5}"):
        download(server.url, tmp_path / "data.bin", MD5)
    assert not list(tmp_path.iterdir())
    assert download(server.url, tmp_path / "data.bin", MD5).read_bytes() == CONTENT


def test_several_at_once_download_once(server, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: download(server.url, tmp_path / "data.bin", MD5), range(4)))
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and server.ranges == [None]


def test_without_a_server_the_error_names_the_path_of_the_file(tmp_path):
    with pytest.raises(DatasetError, match=r"data.bin is missing, .*refused.*put the file there yourself"):
        download("http://127.0.0.1:9/data.bin", tmp_path / "data.bin", MD5)
    with pytest.raises(DatasetError, match="unknown url type"):
        download("nowhere", tmp_path / "other.bin", MD5)


@pytest.mark.slow
def test_a_killed_download_continues(server, tmp_path):
    server.cut = 2_500_000  # and the connection stays open for the process to be killed in
    code = (
        "import os, signal, sys\n"
        "from towerpack_dataflow.datasets import _download as d\n"
        "def copy(answer, file, path, begun):\n"
        "    file.write(answer.read(2_000_000)); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "d._copy = copy\n"
        "d.download(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, server.url, str(tmp_path / "data.bin"), MD5]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    server.cut = None
    assert download(server.url, tmp_path / "data.bin", MD5).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=2000000-"]
