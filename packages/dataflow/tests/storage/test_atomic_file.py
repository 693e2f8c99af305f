"""Atomic files: names, links, modes, full disks, and killed writers."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArrowSerializer,
    CSVSerializer,
    HDF5Serializer,
    JSONLSerializer,
    LMDBSerializer,
    NumpySerializer,
    ParquetSerializer,
    TFRecordSerializer,
    write_tar,
)
from towerpack_dataflow.storage import create_file, create_path


def _by_path(path, content):
    with create_path(path) as name, open(name, "wb") as file:
        file.write(content)


def _by_file(path, content):
    with create_file(path) as file:
        file.write(content)


both = pytest.mark.parametrize("write", [_by_file, _by_path])


@both
def test_names_as_long_as_the_system_takes(tmp_path, write):
    write(tmp_path / ("x" * 255), b"new")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"new" and len(os.listdir(tmp_path)) == 1
    with pytest.raises(OSError, match="File name too long"):
        write(tmp_path / ("x" * 256), b"new")


@both
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed_and_stays(tmp_path, write, exists):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "data.bin", tmp_path / "link"
    if exists:
        target.write_bytes(b"old")
    link.symlink_to("folder/data.bin")
    write(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "folder") == ["data.bin"]


@both
def test_a_circle_of_links_is_an_error_and_stays(tmp_path, write):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links") as caught:
        write(tmp_path / "a", b"new")
    assert caught.value.errno == errno.ELOOP and sorted(os.listdir(tmp_path)) == ["a", "b"]


@both
def test_missing_folders_are_made(tmp_path, write):
    write(tmp_path / "a" / "b" / "data.bin", b"new")
    assert (tmp_path / "a" / "b" / "data.bin").read_bytes() == b"new"


@both
def test_a_path_that_is_not_a_file_is_rejected_before_writing(tmp_path, write):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write(tmp_path, b"new")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(
            ArgumentError, match=r"expected a regular file or a new one; it is a device or pipe"
        ):
            write(path, b"new")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file" / "data.bin", b"new")
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_a_file_that_may_not_be_written_to_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "data.bin").write_bytes(b"old")
    # The superuser may write to all files, and tests may run as one.
    monkeypatch.setattr(os, "access", lambda path, mode: os.stat(path).st_mode & 0o777 != 0o444)
    os.chmod(tmp_path / "data.bin", 0o444)
    with pytest.raises(PermissionError, match=r"data\.bin"):
        _by_file(tmp_path / "data.bin", b"new")
    assert (tmp_path / "data.bin").read_bytes() == b"old"


@both
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o2664])
def test_mode_and_owner_are_kept(tmp_path, write, mode):
    path = tmp_path / "data.bin"
    path.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
    os.chmod(path, mode)
    before = path.stat()
    write(path, b"new")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


KILLED = """
import os, signal, sys
from towerpack_dataflow.storage import create_file, create_path
with create_{how}(sys.argv[1]) as file:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@both
@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "path"])
def test_the_next_writer_removes_leftovers_of_killed_writers(tmp_path, write, how):
    path, other = tmp_path / "data.bin", tmp_path / "other.bin"
    for target in (path, other):
        end = subprocess.run([sys.executable, "-c", KILLED.format(how=how), str(target)], timeout=60)
        assert end.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    write(path, b"new")
    assert len(os.listdir(tmp_path)) == 2  # the one of the other file is that file's next writer's
    write(other, b"new")
    assert sorted(os.listdir(tmp_path)) == ["data.bin", "other.bin"]


@both
def test_two_writers_at_once_do_not_disturb_each_other(tmp_path, write):
    path = tmp_path / "data.bin"
    with create_file(path) as first:
        first.write(b"first")
        write(path, b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first" and os.listdir(tmp_path) == ["data.bin"]


@pytest.mark.slow
def test_many_writers_at_once(tmp_path):
    path, errors = tmp_path / "data.bin", []

    def work(number):
        try:
            for _ in range(40):
                _by_file(path, bytes([number]) * 1000)
                assert len(set(path.read_bytes())) == 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and os.listdir(tmp_path) == ["data.bin"]


@contextlib.contextmanager
def files_up_to(size):
    """Lets no file of this process grow beyond a size; an error says so, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize(
    "save",
    [
        lambda path: NumpySerializer.save([["a" * 100, number] for number in range(5000)], path),
        lambda path: NumpySerializer.save([[number] for number in range(50_000)], path),
        lambda path: CSVSerializer.save([["a" * 100, number] for number in range(5000)], path, ["a", "b"]),
        lambda path: JSONLSerializer.save([{"a": "a" * 100} for number in range(5000)], path),
        lambda path: write_tar([{"__key__": str(number), "x": b"1"} for number in range(500)], path),
        lambda path: HDF5Serializer.save(
            [[np.zeros(100), number] for number in range(3000)], path, ["a", "b"]
        ),
        lambda path: ParquetSerializer.save(
            [{"a": str(number) * 100, "b": number} for number in range(9000)], path
        ),
        lambda path: ArrowSerializer.save([{"a": "a" * 100} for number in range(9000)], path),
        lambda path: TFRecordSerializer.save([["a" * 100, number] for number in range(5000)], path),
        lambda path: LMDBSerializer.save([["a" * 100, number] for number in range(5000)], path),
        lambda path: HDF5Serializer.save([[number] for number in range(50_000)], path, ["a"]),
    ],
)
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, save):
    path = tmp_path / "data.file"
    path.write_bytes(b"old")
    with files_up_to(100_000), pytest.raises(OSError, match=r"data\.file") as caught:
        save(path)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["data.file"]


def test_an_error_of_the_data_keeps_its_own_words(tmp_path):
    with pytest.raises(ConnectionError) as caught, create_file(tmp_path / "data.bin"):
        raise ConnectionResetError(errno.ECONNRESET, "the server has gone")
    assert caught.value.filename is None and not os.listdir(tmp_path)
