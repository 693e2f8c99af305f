import errno
import json
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from towerpack_dataflow import (
    CacheData,
    CacheError,
    DataFromList,
    DiskCache,
    FilterData,
    MapData,
    MultiProcessRunner,
)
from towerpack_dataflow.testing import check_dataflow


def source(size=20, made=None):
    """Random datapoints; appends their indices to `made`."""

    def make(datapoint, rng):
        if made is not None:
            made.append(datapoint[0])
        return [*datapoint, rng.random()]

    return MapData(DataFromList([[i] for i in range(size)]), make, rng=True)


def filtered(size=20, made=None):
    return FilterData(source(size, made), lambda dp: dp[0] % 3)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("below", [source, filtered])
def test_conformance(below, shuffle, tmp_path):
    check_dataflow(CacheData(below(), shuffle, DiskCache(tmp_path / "cache")))
    check_dataflow(CacheData(below(), shuffle, DiskCache(tmp_path / "cache")))  # out of finished files
    if below is source:
        check_dataflow(CacheData(below(), shuffle, DiskCache(tmp_path / "small", max_bytes=200)))


def test_another_run_makes_nothing(tmp_path):
    made = []
    first = CacheData(filtered(made=made), storage=DiskCache(tmp_path))
    first.seed(1)
    expected = list(first)
    assert len(made) == 20
    for shuffle in (False, True):
        again = CacheData(filtered(made=made), shuffle, DiskCache(tmp_path))
        again.seed(2)
        assert [list(again), sorted(again)] == [expected, sorted(expected)]
    assert len(made) == 20


@pytest.mark.parametrize("error", [False, True])
def test_a_pass_that_was_broken_off_leaves_nothing_for_another_run(error, tmp_path):
    broken = [error]

    def fragile(number):
        if number == 4 and broken[0]:
            raise OSError("no connection")
        return [number]

    flow = CacheData(MapData(range(9), fragile), storage=DiskCache(tmp_path))
    iterator = iter(flow)
    if error:
        with pytest.raises(OSError, match="no connection"):
            list(iterator)
    else:
        next(iterator)
    broken[0] = False
    assert not (tmp_path / "index").exists()
    del flow, iterator
    fresh = CacheData(MapData(range(9), fragile), storage=DiskCache(tmp_path))
    assert list(fresh) == list(fresh) == [[number] for number in range(9)]
    assert (tmp_path / "index").exists()


def test_the_budget_bounds_the_file(tmp_path):
    made = []
    arrays = MapData(range(10), lambda number: made.append(number) or [np.full(1000, number, "uint8")])
    flow = CacheData(arrays, storage=DiskCache(tmp_path, max_bytes=5000))
    first, second = list(flow), list(flow)
    assert np.array_equal(first, second)
    assert (tmp_path / "data").stat().st_size <= 5000
    assert made == [*range(10), *range(4, 10)]
    made.clear()
    assert np.array_equal(list(CacheData(arrays, storage=DiskCache(tmp_path))), first)
    assert made == [*range(4, 10)]


def filled(tmp_path):
    flow = CacheData(source(), storage=DiskCache(tmp_path))
    return list(flow)


@pytest.mark.parametrize("damage", ["index cut off", "index changed", "index empty", "data gone"])
def test_damaged_files_are_made_again(damage, tmp_path, caplog):
    expected = filled(tmp_path)
    index = tmp_path / "index"
    content = index.read_bytes()
    if damage == "data gone":
        (tmp_path / "data").unlink()
    elif damage == "index changed":
        index.write_bytes(content[:-3] + b"abc")
    else:
        index.write_bytes(content[: len(content) // 2] if damage == "index cut off" else b"")
    made = []
    assert list(CacheData(source(made=made), storage=DiskCache(tmp_path))) == expected
    assert "rebuilding the cache" in caplog.text
    assert len(made) == 20
    assert filled(tmp_path) == expected


@pytest.mark.parametrize("cut", [False, True])
def test_damaged_records_are_made_again(cut, tmp_path, caplog):
    expected = filled(tmp_path)
    data = tmp_path / "data"
    content = data.read_bytes()
    data.write_bytes(content[:-10] if cut else b"x" + content[1:])
    assert filled(tmp_path) == expected
    assert f"datapoint {19 if cut else 0} is damaged; making it again" in caplog.text


def test_the_directory_of_another_flow_is_refused(tmp_path):
    filled(tmp_path)
    with pytest.raises(CacheError, match=r"holds the cache of another flow or seed: .*Use another directory"):
        list(CacheData(source(21), storage=DiskCache(tmp_path)))
    other_seed = CacheData(source(), storage=DiskCache(tmp_path))
    other_seed.ds.seed(3)
    with pytest.raises(CacheError, match="another flow or seed"):
        list(other_seed)


def test_a_version_that_this_release_does_not_read(tmp_path):
    filled(tmp_path)
    head, _, table = (tmp_path / "index").read_bytes().partition(b"\n")
    head = json.dumps({**json.loads(head), "version": 2})
    (tmp_path / "index").write_bytes(head.encode() + b"\n" + table)
    with pytest.raises(CacheError, match="version 2; this release reads 'towerpack-cache', version 1"):
        filled(tmp_path)


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        filled(tmp_path / "file" / "cache")


def test_only_one_writes_and_the_other_one_is_exact(tmp_path):
    made = []
    one = CacheData(source(), storage=DiskCache(tmp_path))
    two = CacheData(source(made=made), storage=DiskCache(tmp_path))
    plain = source()
    plain.seed(0)
    expected = list(plain)
    first = iter(one)
    assert [next(first) for _ in range(3)] == expected[:3]
    assert list(two) == expected  # while the other one writes
    assert [*expected[:3], *first] == expected
    made.clear()
    assert list(two) == expected
    assert made == []


def test_a_forked_process_does_not_write(tmp_path):
    flow = CacheData(source(), storage=DiskCache(tmp_path))
    iterator = iter(flow)
    begun = [next(iterator) for _ in range(3)]
    child = multiprocessing.get_context("fork").Process(target=list, args=(iterator,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert not (tmp_path / "index").exists()
    assert [*begun, *iterator] == filled(tmp_path)


@pytest.mark.slow
def test_workers_read_a_finished_cache(tmp_path):
    expected = filled(tmp_path)
    with MultiProcessRunner(CacheData(source(), storage=DiskCache(tmp_path)), 2) as runner:
        assert list(runner) == expected


@pytest.mark.parametrize("name", ["data", "index", "index.new", "lock"])
@pytest.mark.parametrize("link", [False, True])
def test_files_of_a_user_are_refused_and_stay_as_they_are(tmp_path, name, link):
    cache, own = tmp_path / "cache", tmp_path / "own"
    cache.mkdir()
    own.write_bytes(b"\x80\x05 a user's own")
    if link:
        (cache / name).symlink_to(own)
    else:
        own.rename(cache / name)
    with pytest.raises(CacheError, match=f"contains '{name}', which no cache has made"):
        filled(cache)
    assert [path.name for path in cache.iterdir()] == [name]
    assert (cache / name).read_bytes() == b"\x80\x05 a user's own"


@pytest.mark.parametrize("link", ["data", "index.new"])
def test_links_in_the_directory_of_a_cache_are_not_followed(tmp_path, link):
    cache, own = tmp_path / "cache", tmp_path / "own"
    filled(cache)
    own.write_bytes(b"a user's own")
    (cache / "index").unlink()
    (cache / link).unlink(missing_ok=True)
    (cache / link).symlink_to(own)
    with pytest.raises(CacheError, match=f"contains '{link}'"):
        filled(cache)
    assert own.read_bytes() == b"a user's own"


def test_other_files_next_to_those_of_a_cache_are_kept(tmp_path):
    (tmp_path / "notes.txt").write_bytes(b"kept")
    expected = filled(tmp_path)
    (tmp_path / "index").unlink()
    assert filled(tmp_path) == expected and (tmp_path / "notes.txt").read_bytes() == b"kept"


def test_the_leftovers_of_a_killed_process_are_taken_over(tmp_path):
    for lock in (b"", b"towerpack-cache\n"):
        left = tmp_path / str(len(lock))
        left.mkdir()
        (left / "lock").write_bytes(lock)
        (left / "data").write_bytes(b"\x80\x05 half of a rec")
        (left / "index.new").write_bytes(b"half of a table")
        filled(left)
        assert sorted(path.name for path in left.iterdir()) == ["data", "index", "lock"]


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG]
)
@pytest.mark.parametrize("call", ["open", "pwrite", "fsync", "mkdir"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_any_refusal_of_a_disk_makes_passes_slower_alone(tmp_path, monkeypatch, caplog, call, code, shuffle):
    def refuse(*arguments, **named):
        raise OSError(code, os.strerror(code), str(tmp_path))

    expected = sorted(CacheData(source()))
    flow = CacheData(source(), shuffle, DiskCache(tmp_path / "cache"))
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        assert sorted(flow) == expected and sorted(flow) == expected
    assert sorted(flow) == expected
    assert caplog.text.count("cannot be written") == 1
    del flow
    assert sorted(filled(tmp_path / "cache")) == expected


FULL = """
import resource, subprocess, sys
way, folder = sys.argv[1:]
if way == "mounted":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], check=True)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
from towerpack_dataflow import CacheData, DiskCache, MapData
made = []
numbers = MapData(range(30), lambda n: made.append(n) or [bytes([n]) * 10_000])
flow = CacheData(numbers, storage=DiskCache(folder))
for _ in range(2):
    assert list(flow) == [[bytes([n]) * 10_000] for n in range(30)]
print(len(made))
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["mounted", "limited"])
def test_a_full_disk_keeps_its_records_and_makes_the_others_again(tmp_path, way):
    unshare = ["unshare", "--mount", "--propagation", "private"] if way == "mounted" else []
    probe = [*unshare, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if unshare and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        way, unshare = "limited", []  # without the right to mount
    command = [*unshare, sys.executable, "-c", FULL, way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be written") == 1
    assert 30 < int(done.stdout) < 60
