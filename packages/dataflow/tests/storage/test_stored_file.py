"""Files on a disk: mapped, written atomically, and named in errors."""

import os
import pickle
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resources import open_files

from towerpack_dataflow import ArgumentError, ArgumentTypeError, FormatError, StorageError
from towerpack_dataflow.storage import create_file, local_path, open_url


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(256)))
    return path


@pytest.mark.parametrize("form", [str, lambda path: path, lambda path: path.as_uri(), os.path.relpath])
def test_a_local_file_by_any_name(path, form):
    with open_url(form(path)) as file:
        assert (os.path.realpath(file.name), file.size) == (str(path), 256)
        assert file.read(250) == bytes(range(250, 256)) and file.read(3, 2) == b"\3\4"
        assert file.read(256) == b"" and repr(file) == f"StoredFile('{file.name}', size=256)"
    assert os.path.samefile(local_path(form(path)), path)


def test_memory_outlives_the_file(path):
    file = open_url(path)
    first = file.read(0, 3)
    os.unlink(path)
    file.close()
    assert first == b"\0\1\2"


@given(st.integers(-5, 300), st.integers(-5, 300))
def test_reading_beyond_the_end_is_an_error(tmp_path_factory, offset, size):
    path = tmp_path_factory.getbasetemp() / "fixed.bin"
    path.write_bytes(bytes(range(256)))
    with open_url(path) as file:
        if offset < 0 or size < 0 or offset + size > 256:
            with pytest.raises(FormatError, match=r"fixed.bin has 256 bytes, but bytes .* truncated"):
                file.read(offset, size)
        else:
            assert file.read(offset, size) == bytes(range(256))[offset : offset + size]


def test_another_process_opens_the_same_file_or_none(path):
    file = open_url(path)
    assert pickle.loads(pickle.dumps(file)).read() == bytes(range(256))
    replacement = path.with_name("new")
    replacement.write_bytes(b"new")
    os.replace(replacement, path)
    assert file.read(255) == b"\xff"  # who has it open goes on with the old one
    with pytest.raises(StorageError, match=r"data.bin has changed since it was opened"):
        pickle.loads(pickle.dumps(file))


def test_a_file_that_is_cut_is_an_error_and_no_signal(path):
    path.write_bytes(bytes(100_000))
    with open_url(path) as file:
        os.truncate(path, 10)
        with pytest.raises(StorageError, match="was truncated to 10 bytes while it was being read"):
            file.read(0, 100_000)


def test_an_empty_file(tmp_path):
    (tmp_path / "empty").touch()
    with open_url(tmp_path / "empty") as file:
        assert file.size == 0 and file.read() == b""


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("", ArgumentError, "url is empty"),
        (5, ArgumentTypeError, "url is a path or a URL; received int"),
        (b"data", ArgumentTypeError, "received bytes"),
        ("/no/such/file", FileNotFoundError, "/no/such/file"),
        ("/tmp", IsADirectoryError, "/tmp"),
        ("nowhere://x/y", ArgumentError, "nowhere://x/y: Protocol not known: nowhere"),
    ],
)
def test_wrong_urls_are_refused(url, kind, message):
    with pytest.raises(kind, match=message):
        open_url(url)


def test_a_missing_local_path_is_an_error():
    with pytest.raises(FileNotFoundError, match="/no/such/file"):
        local_path("/no/such/file")


def test_a_file_is_made_at_once(tmp_path):
    target = tmp_path / "new" / "data.bin"
    with create_file(target) as file:
        file.write(b"old")
        assert not target.exists()
    with pytest.raises(ZeroDivisionError), create_file(target) as file:
        file.write(b"new")
        1 / 0  # noqa: B018
    assert target.read_bytes() == b"old" and os.listdir(target.parent) == ["data.bin"]
    os.chmod(target, 0o640)
    with create_file(target) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new" and target.stat().st_mode & 0o777 == 0o640


def test_a_file_elsewhere_cannot_be_made():
    with pytest.raises(ArgumentError, match="expected a local path"), create_file("s3://bucket/data"):
        pass


def test_a_new_file_has_the_umask_which_is_never_set(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")  # it is of all threads, one of which may make a file just then
            with create_file(tmp_path / "data.bin") as file:
                file.write(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "data.bin").stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_file(tmp_path):
    target = tmp_path / "data.bin"
    target.write_bytes(b"old")
    code = (
        "import os, signal, sys\n"
        "from towerpack_dataflow.storage import create_file\n"
        "with create_file(sys.argv[1]) as file:\n"
        "    file.write(b'new'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(target)]).returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")
def test_a_full_disk_is_the_systems_error(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No space left"), create_file(tmp_path / "data.bin") as file:
        os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
        file.write(bytes(10))
    assert not list(tmp_path.iterdir())


def test_a_mapped_file_and_a_closed_one(path):
    file = open_url(path)
    mapped = file.map()
    assert mapped == bytes(range(256)) and file.map() is mapped
    target = bytearray(5)
    file.readinto(memoryview(target), 3)
    assert target == bytes(range(3, 8))
    file.close()
    assert mapped == bytes(range(256))
    with pytest.raises(StorageError, match=r"data\.bin was closed; open it again"):
        file.read(0, 3)


def test_a_file_that_is_written_to_is_an_error(path):
    with open_url(path) as file:
        path.write_bytes(bytes(256))
        os.utime(path, ns=(0, 5))
        with pytest.raises(StorageError, match=r"data\.bin was written to while it was being read"):
            file.read(0, 3)
        with pytest.raises(StorageError, match="was written to"):
            file.check()


def test_many_files_need_one_descriptor_each(path):
    before = open_files()
    files = [open_url(path) for _ in range(10)]
    assert len(open_files() - before) == 10
    del files
    assert not open_files() - before
