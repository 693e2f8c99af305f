"""The cache of remote files removes only its own files; on a full disk it is only slower."""

import errno
import fcntl
import logging
import os
import re
import subprocess
import sys

import fsspec
import numpy as np
import pytest

from towerpack_dataflow import CacheError, StorageError
from towerpack_dataflow.storage import UrlCache, create_file, local_path, open_url

pytestmark = pytest.mark.timeout(180)
CONTENT = np.random.default_rng(0).bytes(1_100_000)
URL = "memory://folder/data.bin"


@pytest.fixture(autouse=True)
def stored():
    fsspec.filesystem("memory").pipe("/folder/data.bin", CONTENT)


def read_all(cache):
    with open_url(URL, cache) as file:
        return file.read() == CONTENT


def everything_in(folder):
    return {
        path.relative_to(folder).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize(
    "name", ["photo.jpg", "0", "deep/er/photo.jpg", "a" * 32 + "/photo.jpg", "A" * 32 + "/0", "index", "data"]
)
def test_a_folder_of_other_files_is_refused_and_stays_as_it_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"a user's own")
    with pytest.raises(
        CacheError, match=rf"{tmp_path} is not a folder of a UrlCache: it contains .*TOWERPACK_CACHE"
    ):
        UrlCache(tmp_path, max_bytes=1)
    assert everything_in(tmp_path) == {name: b"a user's own"}


def test_the_folder_of_the_environment_is_refused_likewise(tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_bytes(b"years")
    monkeypatch.setenv("TOWERPACK_CACHE", str(tmp_path))
    with pytest.raises(CacheError, match=r"thesis\.tex"):
        local_path(URL)


def test_files_and_links_of_a_user_in_a_cache_are_kept(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "cache"
    (outside / "0").parent.mkdir()
    (outside / "0").write_bytes(b"outside")
    assert read_all(UrlCache(folder))
    block = next(folder.glob("*/0")).parent
    users = ["photo.jpg", "deep/er/0", "deep/7", f"{block.name}/notes.txt", f"{block.name}/deeper/0"]
    for name in users:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
        os.utime(folder / name, (0, 0))
    (folder / ("b" * 32)).symlink_to(outside)
    (block / "99").symlink_to(outside / "0")
    fsspec.filesystem("memory").pipe("/folder/other.bin", CONTENT)
    with open_url("memory://folder/other.bin", UrlCache(folder, max_bytes=1)) as file:
        assert file.read() == CONTENT
    kept = everything_in(folder)
    assert kept.keys() >= set(users) and (outside / "0").read_bytes() == b"outside"
    assert {"b" * 32, f"{block.name}/99"} <= kept.keys()
    assert not list(folder.glob(f"{block.name}/[012]"))


def test_a_cache_of_an_earlier_release_is_taken_over(tmp_path):
    assert read_all(UrlCache(tmp_path))
    local_path(URL, UrlCache(tmp_path))
    (tmp_path / ".towerpack-cache").unlink()
    (next(tmp_path.glob("*/0")).parent / ".0.0123456789abcdef.tmp").write_bytes(b"begun")
    before = everything_in(tmp_path).keys()
    UrlCache(tmp_path)
    assert everything_in(tmp_path).keys() == before | {".towerpack-cache"}


def test_leftovers_of_killed_writers_are_removed_and_those_at_work_are_not(tmp_path):
    assert read_all(UrlCache(tmp_path))
    folder = next(tmp_path.glob("*/0")).parent
    killed, at_work = (folder / f".towerpack-{name}.tmp" for name in ("killed", "at-work"))
    killed.write_bytes(b"?")
    with open(at_work, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        local_path(URL, UrlCache(tmp_path))
        assert at_work.exists() and not killed.exists()


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b"a file"), None])
def test_a_folder_that_cannot_be_made_makes_reads_slower_alone(tmp_path, caplog, make):
    folder = "/proc/towerpack" if make is None else tmp_path / "cache"
    if make is not None:
        make(folder)
    cache = UrlCache(folder)
    assert read_all(cache) and read_all(cache)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert re.search(f"The cache in {folder} cannot be written to .* files are read remotely", caplog.text)
    with pytest.raises(StorageError, match=rf"{URL} cannot be copied into the cache in {folder}"):
        local_path(URL, cache)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOLCK]
)
@pytest.mark.parametrize("call", ["open", "replace", "fsync", "mkdir", "utime", "unlink"])
def test_any_refusal_of_a_disk_makes_reads_slower_alone(tmp_path, monkeypatch, caplog, call, code):
    def refuse(*arguments, **named):
        raise OSError(code, os.strerror(code), str(arguments[0]))

    kept = UrlCache(tmp_path)
    with open_url(URL, kept) as file:
        file.read(0, 5)
        next(tmp_path.glob("*/0")).write_bytes(b"damaged")
        with monkeypatch.context() as patched:
            patched.setattr(os, call, refuse)
            assert file.read() == CONTENT and read_all(UrlCache(tmp_path, max_bytes=1))
        assert file.read() == CONTENT
    assert sum(record.levelno == logging.WARNING for record in caplog.records) <= 2


FULL = """
import resource, subprocess, sys
way, folder = sys.argv[1:]
if way == "mounted":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", folder], check=True)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
import fsspec, glob, numpy as np
from towerpack_dataflow import StorageError
from towerpack_dataflow.storage import UrlCache, local_path, open_url
content = np.random.default_rng(0).bytes(3_000_000)
fsspec.filesystem("memory").pipe("/folder/data.bin", content)
cache = UrlCache(folder)
for _ in range(2):
    with open_url("memory://folder/data.bin", cache) as file:
        assert file.read() == content
try:
    local_path("memory://folder/data.bin", UrlCache(folder))
except StorageError as error:
    print("refused:", error)
left = glob.glob(folder + "/**/.*.tmp", recursive=True, include_hidden=True)
assert not left, left
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["mounted", "limited"])
def test_a_full_disk_makes_reads_slower_alone(tmp_path, way):
    unshare = ["unshare", "--mount", "--propagation", "private"] if way == "mounted" else []
    probe = [*unshare, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if unshare and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        way, unshare = "limited", []  # without the right to mount
    command = [*unshare, sys.executable, "-c", FULL, way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be written to") == 1, done.stderr
    assert "refused: memory://folder/data.bin cannot be copied into the cache" in done.stdout


def test_names_that_no_file_may_have_are_kept_under_others(tmp_path):
    for name in ("/folder/" + "ü" * 200 + ".bin", "/folder/.hidden"):
        fsspec.filesystem("memory").pipe(name, CONTENT)
        path = local_path(f"memory:/{name}", UrlCache(tmp_path))
        with open(path, "rb") as file:
            assert file.read() == CONTENT


def test_the_cache_of_a_changed_file_is_another_one(tmp_path):
    for content in (CONTENT, CONTENT[::-1]):
        fsspec.filesystem("memory").pipe("/folder/data.bin", content)
        with (
            open_url(URL, UrlCache(tmp_path)) as file,
            open(local_path(URL, UrlCache(tmp_path)), "rb") as copy,
        ):
            assert file.read() == content and copy.read() == content


def test_a_file_that_changes_while_it_is_read_is_an_error():
    with open_url(URL) as file:
        fsspec.filesystem("memory").pipe("/folder/data.bin", CONTENT[::-1])
        with pytest.raises(
            StorageError, match=rf"{URL} has changed since it was opened: .* and version .* now"
        ):
            file.read(0, 3)


def test_a_writer_at_work_is_not_disturbed(tmp_path):
    cache = UrlCache(tmp_path)
    assert read_all(cache)
    folder = next(tmp_path.glob("*/0")).parent
    with create_file(folder / "9") as file:
        file.write(b"begun")
        assert read_all(UrlCache(tmp_path, max_bytes=1))
    assert (folder / "9").read_bytes() == b"begun"
