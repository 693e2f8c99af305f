"""Directories of memories: a saved memory and a user's files are never removed, and damage is detected."""

import json
import os
import shutil
import zlib

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, SegmentError, StateError
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, RolloutBuffer

ROWS = 3000  # more than a segment


def replay(directory=None):
    return ReplayBuffer(
        ((), "f4"), ((), "i8"), ROWS, directory=directory, sampling=PrioritizedSampling(seed=1)
    )


def filled(directory=None):
    memory, frames, yes = replay(directory), np.arange(ROWS, dtype=np.float32), np.ones(ROWS, bool)
    memory.add(frames, frames.astype(int), frames, yes, ~yes, frames + 1)
    return memory


def rollout():
    return RolloutBuffer(((), "f4"), ((), "i8"), steps=2, environments=3, seed=1)


def collected():
    made, no = rollout(), np.zeros(3, bool)
    for _ in range(2):
        made.add(
            np.ones(3), np.ones(3, int), np.ones(3), no, no, value=np.ones(3), log_probability=np.zeros(3)
        )
    return made


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("reach", ["itself", "a link to it", "a copy"])
@pytest.mark.parametrize("where", ["memory", None])
def test_no_memory_works_where_a_saved_one_lies(tmp_path, where, reach):
    memory, saved = filled(where and tmp_path / where), tmp_path / "saved"
    state = memory.state_dict()
    memory.link_into(saved)
    before, place = contents(saved), tmp_path / "place"
    if reach == "a link to it":
        place.symlink_to(saved)
    elif reach == "a copy":
        shutil.copytree(saved, place)
    else:
        place = saved
    with pytest.raises(ArgumentError, match=r"which contains a saved one \(memory\.json\).*load_state_dict"):
        replay(place)
    memory.close()
    assert contents(saved) == before
    other = replay(tmp_path / "other")
    other.load_state_dict(state, place)
    assert len(other) == len(filled())
    other.close()


def test_no_memory_works_where_a_saved_rollout_lies(tmp_path):
    collected().link_into(tmp_path / "saved")
    with pytest.raises(ArgumentError, match="which contains a saved one"):
        replay(tmp_path / "saved")


@pytest.mark.parametrize("make", [filled, lambda directory: collected()])
def test_nothing_is_saved_where_a_memory_is_at_work_or_saved(tmp_path, make):
    memory, other = make(tmp_path / "own"), replay(tmp_path / "other")
    memory.link_into(tmp_path / "saved")
    before = contents(tmp_path / "saved")
    for name in ("saved", "other", "own"):
        if (tmp_path / name).exists():
            with pytest.raises(
                ArgumentError, match=f"directory must not have files of a memory; received .*{name}"
            ):
                memory.link_into(tmp_path / name)
    assert contents(tmp_path / "saved") == before
    other.close()


@pytest.mark.parametrize("name", ["segment-00000000.bin", "segment-00000007.bin"])
def test_files_that_no_memory_has_left_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"a user's own")
    with pytest.raises(ArgumentError, match=f"has '{name}', a file not made by a memory"):
        replay(tmp_path)
    assert contents(tmp_path) == {name: b"a user's own"}


def test_leftovers_of_a_killed_memory_are_removed_and_other_files_are_not(tmp_path):
    filled(tmp_path).close()
    users = {"segment-notes.bin": b"1", "notes.txt": b"2", "segment-1.bin.bak": b"3"}
    for name, content in {**users, "segment-99999999.bin": b"left"}.items():
        (tmp_path / name).write_bytes(content)
    memory = filled(tmp_path)
    assert not (tmp_path / "segment-99999999.bin").exists()
    memory.close()
    assert contents(tmp_path) == {".lock": b"", **users}
    (tmp_path / "segment-00000003.bin").symlink_to(tmp_path / "notes.txt")
    with pytest.raises(ArgumentError, match=r"has 'segment-00000003\.bin'"):
        replay(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replay", "rollout"])
def test_a_flipped_bit_anywhere_is_noticed(tmp_path, kind):
    memory, other = (filled(), replay()) if kind == "replay" else (collected(), rollout())
    state, saved = memory.state_dict(), tmp_path / "saved"
    memory.link_into(saved)
    rng = np.random.default_rng(7)
    for path in sorted(saved.iterdir()):
        content = path.read_bytes()
        whole = (
            range(0, 8 * len(content), 37)
            if path.name == "memory.json"
            else rng.integers(8 * len(content), size=20)
        )
        stored = np.frombuffer(content, np.uint8)
        os.chmod(path, 0o644)
        for bit in map(int, whole):
            damaged = stored.copy()
            damaged[bit // 8] ^= 1 << bit % 8
            if path.name.startswith("segment-") and not used(saved, path.name)[bit // 8]:
                continue
            path.write_bytes(damaged.tobytes())
            with pytest.raises((SegmentError, StateError)):
                other.load_state_dict(state, saved)
        path.write_bytes(content)
    other.load_state_dict(state, saved)


def used(saved, name):
    """Returns which bytes of a segment are those of rows."""
    rows = json.loads((saved / "memory.json").read_text())["segments"][name]["rows"]
    size = (saved / name).stat().st_size
    segment_rows = size // (4 + 8 + 4 + 4)
    parts = [np.arange(segment_rows * width) < rows * width for width in (4, 8, 4, 4)]
    return np.concatenate(parts)


def test_a_saved_memory_of_an_earlier_release_loads(tmp_path):
    memory = filled()
    memory.link_into(tmp_path / "saved")
    path = tmp_path / "saved" / "memory.json"
    kept = json.loads(path.read_text())
    assert kept.pop("crc32") == zlib.crc32(json.dumps(kept, sort_keys=True).encode())
    path.write_text(json.dumps(kept))
    other = replay()
    other.load_state_dict(memory.state_dict(), tmp_path / "saved")
    assert np.array_equal(other.sample(64).action, memory.sample(64).action)


def test_the_directory_of_another_memory_or_rollout_is_refused(tmp_path):
    memory, other = filled(), ReplayBuffer(((), "i4"), ((), "f8"), ROWS, sampling=PrioritizedSampling(seed=1))
    frames, yes = np.arange(ROWS, dtype=np.int32), np.ones(ROWS, bool)
    other.add(frames, frames, frames, yes, ~yes, frames + 1)
    other.link_into(tmp_path / "memory")
    with pytest.raises(StateError, match="belongs to another memory"):
        replay().load_state_dict(memory.state_dict(), tmp_path / "memory")
    wider = RolloutBuffer(((), "f8"), ((), "i8"), steps=2, environments=3, seed=1)
    wider.link_into(tmp_path / "rollout")
    with pytest.raises(StateError, match="belongs to another rollout"):
        rollout().load_state_dict(rollout().state_dict(), tmp_path / "rollout")
