"""Memories in checkpoints: linked, copied and damaged files, and killed processes."""

import gc
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, SegmentError
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling, disk_usage

SPACES = ((2,), "float32"), ((), "int64")


def memory(directory=None, capacity=4000):
    return ReplayBuffer(*SPACES, capacity, sampling=PrioritizedSampling(seed=1), directory=directory)


def fill(buffer, begin, end):
    for row in range(begin, end, 50):
        times = np.arange(row, row + 50)
        frames = np.stack([times, np.zeros(50)], axis=1)
        buffer.add(frames, times, times * 1.0, np.zeros(50, bool), np.ones(50, bool), frames + 1)


def saved(buffer, directory):
    state = json.loads(json.dumps(buffer.state_dict()))
    buffer.link_into(directory)
    return state


def expect_same(one, other):
    for mine, theirs in zip(one.sample(64), other.sample(64)):
        assert np.array_equal(mine, theirs)


def files(directory):
    return sorted(directory.glob("segment-*.bin"))


def test_sealed_segments_are_links_and_cannot_be_written(tmp_path):
    buffer = memory(tmp_path / "memory")
    fill(buffer, 0, 1500)  # 3000 rows, 1024 in a segment
    state = saved(buffer, tmp_path / "one")
    sealed, again, rest = files(tmp_path / "one")
    for path in (sealed, again):
        assert path.stat().st_nlink == 2
        assert path.stat().st_mode & 0o777 == 0o444
    assert rest.stat().st_nlink == 1
    fill(buffer, 1500, 9000)  # which drops the rows that are saved
    restored = memory(tmp_path / "other")
    restored.load_state_dict(state, tmp_path / "one")
    assert [path.stat().st_nlink for path in files(tmp_path / "other")] == [2, 2, 1]
    assert sorted(restored.sample(1500).action)[-1] < 1500


def test_anonymous_memory_is_copied_and_continues_in_files(tmp_path):
    buffer = memory()
    fill(buffer, 0, 5000)
    state = saved(buffer, tmp_path / "one")
    for directory in [None, tmp_path / "memory"]:
        restored = memory(directory)
        restored.load_state_dict(state, tmp_path / "one")
        other = memory()
        other.load_state_dict(state, tmp_path / "one")
        expect_same(restored, other)
        for each in (restored, other):
            fill(each, 5000, 9000)
        expect_same(restored, other)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs another file system")
def test_another_file_system_gets_copies_with_one_log_message(tmp_path, caplog):
    elsewhere = f"/dev/shm/towerpack-test-{os.getpid()}"
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("both are one file system")
    try:
        buffer = memory(elsewhere)
        fill(buffer, 0, 1500)
        with caplog.at_level(logging.WARNING, "towerpack_dataflow"):
            state = saved(buffer, tmp_path / "one")
            saved(buffer, tmp_path / "two")
        (record,) = caplog.records
        assert "so segments are copied" in record.getMessage()
        restored = memory()
        restored.load_state_dict(state, tmp_path / "one")
        expect_same(restored, buffer)
    finally:
        buffer.close()
        shutil.rmtree(elsewhere)


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("damage", ["removed", "shorter", "a bit"])
def test_a_damaged_segment_is_named_and_nothing_is_changed(tmp_path, damage, number):
    buffer = memory(tmp_path / "memory")
    fill(buffer, 0, 1500)
    state = saved(buffer, tmp_path / "one")
    path = files(shutil.copytree(tmp_path / "one", tmp_path / "damaged"))[number]
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content[:-1] if damage == "shorter" else content)
    if damage == "removed":
        path.unlink()
    restored = memory()
    fill(restored, 0, 100)
    with pytest.raises(SegmentError, match=path.name):
        restored.load_state_dict(state, tmp_path / "damaged")
    assert len(restored) == 100
    restored.load_state_dict(state, tmp_path / "one")
    expect_same(restored, buffer)


@pytest.mark.parametrize("name", ["memory.json", "priorities.bin"])
def test_other_damaged_files_are_named(tmp_path, name):
    buffer = memory()
    fill(buffer, 0, 100)
    state = saved(buffer, tmp_path / "one")
    (tmp_path / "one" / name).write_bytes(b"x")
    with pytest.raises(SegmentError, match=name):
        memory().load_state_dict(state, tmp_path / "one")


def test_disk_usage_counts_a_linked_file_once(tmp_path):
    buffer = memory(tmp_path / "memory")
    fill(buffer, 0, 1500)
    saved(buffer, tmp_path / "kept" / "one")
    one = disk_usage(tmp_path / "kept")
    saved(buffer, tmp_path / "kept" / "two")
    both = disk_usage(tmp_path / "kept" / "one", tmp_path / "kept" / "two")
    assert both == disk_usage(tmp_path / "kept") < 2 * one
    segment = files(tmp_path / "kept" / "one")[0].stat().st_size
    assert 2 * one - both == 2 * segment


def test_a_directory_belongs_to_one_memory_and_ends_with_it(tmp_path):
    buffer = memory(tmp_path)
    fill(buffer, 0, 1500)
    with pytest.raises(ArgumentError, match="another memory is using"):
        memory(tmp_path)
    assert len(files(tmp_path)) == 3
    buffer.close()
    assert files(tmp_path) == []
    with pytest.raises(ArgumentError, match="the memory is closed"):
        fill(buffer, 0, 50)
    with pytest.raises(ArgumentError, match="the memory is closed"):
        buffer.sample(1)
    memory(tmp_path).close()


def test_a_disk_without_room_is_an_error_and_nothing_is_lost(tmp_path):
    one, other = memory(tmp_path), memory()
    for buffer in (one, other):
        fill(buffer, 0, 500)  # 24 rows are left in the segment
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="File too large"):
                fill(one, 500, 550)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    expect_same(one, other)
    for buffer in (one, other):
        fill(buffer, 500, 9000)
    expect_same(one, other)


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_memory_may_end_while_segments_are_sealed(tmp_path, on_disk):
    for number in range(30):
        buffer = memory(tmp_path / str(number) if on_disk else None)
        fill(buffer, 0, 1100)
        cycle = [buffer]
        cycle.append(cycle)
        del buffer, cycle
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("seal-"):
            thread.join()
    gc.collect()
    assert list(tmp_path.glob("*/segment-*.bin")) == []


def test_uniform_sampling_resumes_without_a_directory():
    one, other = (ReplayBuffer(*SPACES, 100, sampling=UniformSampling(seed=seed)) for seed in (1, 2))
    other.load_state_dict(one.state_dict())
    for each in (one, other):
        fill(each, 0, 50)
    assert one.sample(20).action.tolist() == other.sample(20).action.tolist()


# Adds and samples, saves each tenth round, and prints the checksum of each batch.
LEARNER = """
import json, shutil, sys, zlib
import numpy as np
from pathlib import Path
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer

place, rounds = Path(sys.argv[1]), int(sys.argv[2])
memory = ReplayBuffer(((2,), "float32"), ((), "int64"), 3000, n_step=2, directory=place / "memory",
                      sampling=PrioritizedSampling(seed=3))
begin, saves = 0, sorted(place.glob("save-*/state.json"))
if saves:
    begin = int(saves[-1].parent.name[5:])
    memory.load_state_dict(json.loads(saves[-1].read_text()), saves[-1].parent)
for round in range(begin, rounds):
    random = np.random.default_rng(round)
    frames, after = (np.stack([np.arange(40), np.full(40, time)], axis=1) for time in (round, round + 1))
    ends = random.random(40) < 0.2
    memory.add(frames, np.arange(40), random.random(40), ends, np.zeros(40, bool), after)
    batch = memory.sample(32)
    memory.update_priorities(batch.indices, random.random(32))
    check = zlib.crc32(b"".join(np.ascontiguousarray(part).tobytes() for part in batch))
    if round % 10 == 9:
        aside = place / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        memory.link_into(aside)
        (aside / "state.json").write_text(json.dumps(memory.state_dict()))
        aside.rename(place / f"save-{round + 1:04d}")
    print(round, check, flush=True)
"""


def learn(place, rounds, killed_after=None):
    """Runs the learner, and returns the checksums of its batches by round."""
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-c", LEARNER, str(place), str(rounds)]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            number, check = map(int, line.split())
            found[number] = check
            if killed_after is not None and len(found) > killed_after:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.read()
    assert process.returncode == (-signal.SIGKILL if killed_after is not None else 0)
    return found


@pytest.mark.long
@pytest.mark.slow
def test_a_killed_process_resumes_with_the_same_batches(tmp_path):
    expected = learn(tmp_path / "whole", 300)
    assert len(set(expected.values())) == 300
    assert zlib.crc32(b"") not in expected.values()
    for killed_after in (57, 103, 31):
        for number, check in learn(tmp_path / "killed", 10**6, killed_after).items():
            assert number >= 300 or expected[number] == check
    rest = learn(tmp_path / "killed", 300)
    assert rest and rest == {number: expected[number] for number in rest}
    assert max(rest) == 299
