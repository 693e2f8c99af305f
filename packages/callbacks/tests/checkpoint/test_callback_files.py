"""Files of callbacks in checkpoints: written, checked, linked, restored."""

import itertools
import json
import os
import resource
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import (
    Callback,
    CallbackStateError,
    CheckpointError,
    CheckpointWriteError,
    MaxSaver,
    ModelSaver,
    PeriodicTrigger,
    as_session_hooks,
)
from towerpack_callbacks.__main__ import main
from towerpack_callbacks.checkpoint import all_checkpoints, latest_checkpoint, read_checkpoint
from towerpack_callbacks.checkpoint.format import disk_usage, folder_of, key_of
from towerpack_callbacks.testing import check_callback


class Memory(Callback):
    """Keeps all steps: each three in a file that is sealed and linked from then on, and the open ones."""

    def __init__(self, directory):
        self.directory = directory
        self.calls = []

    def _setup_graph(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.sealed, self.open = [], []

    def _trigger_step(self):
        self.open.append(self.global_step)
        if len(self.open) == 3:
            file = self.directory / f"sealed-{len(self.sealed)}"
            file.write_bytes(np.repeat(self.open, 10_000).tobytes())
            file.chmod(0o444)
            self.sealed.append(file)
            self.open = []

    def _trigger(self):
        self.trainer.monitors.put_scalar("steps", float(self.global_step))

    def produces(self):
        return ["steps"]

    def state_dict(self):
        return {"open": len(self.open)}

    def load_state_dict(self, state):
        self.calls.append("state")

    def save_files(self, directory):
        assert directory.is_dir() and not any(directory.iterdir())
        for file in self.sealed:
            os.link(file, directory / file.name)
        (directory / "below").mkdir()
        (directory / "below" / "open.json").write_text(json.dumps(self.open))

    def load_files(self, directory):
        self.calls.append("files")
        self.open = json.loads((directory / "below" / "open.json").read_text())
        for file in sorted(directory.glob("sealed-*")):
            os.link(file, self.directory / file.name)
            self.sealed.append(self.directory / file.name)

    def steps(self):
        sealed = [np.frombuffer(file.read_bytes(), np.int64)[::10_000].tolist() for file in self.sealed]
        return [*itertools.chain(*sealed), *self.open]


class Another(Callback):
    """Puts files by a function; it has no state."""

    def __init__(self, save, name="Another"):
        self.save_files = save
        self.name = name

    def __str__(self):
        return self.name


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path / "memory")


def manifest_of(checkpoint):
    return json.loads((checkpoint / "manifest.json").read_text())


def test_the_manifest_lists_what_is_new_with_a_checksum_and_what_is_linked_without(line, memory):
    line.run([memory, ModelSaver()], max_epoch=2, steps=5)
    manifest = manifest_of(latest_checkpoint(line.log_dir))
    sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
    assert manifest["format"] == 1
    assert sizes["callbacks/Memory/sealed-0"] == 3 * 10_000 * 8
    assert "crc32" not in manifest["files"]["callbacks/Memory/sealed-0"]
    assert "crc32" in manifest["files"]["callbacks/Memory/below/open.json"]
    assert os.stat(line.log_dir / "latest/callbacks/Memory/sealed-0").st_nlink == 3  # of two checkpoints


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damage_is_detected(line, memory, damage):
    line.run([PeriodicTrigger(ModelSaver(), every_k_steps=4), memory], max_epoch=2)
    checkpoint = read_checkpoint(line.log_dir)
    file = checkpoint.callback_files / "Memory" / ("sealed-0" if damage == "gone" else "below/open.json")
    content = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(content[:-1] if damage == "cut" else content.replace(b"4", b"5"))
    with pytest.raises(CheckpointError, match=f"{file.name} is missing or damaged"):
        read_checkpoint(line.log_dir)


def test_a_copy_of_a_checkpoint_is_whole(line, memory, tmp_path):
    line.run([memory, ModelSaver()])
    shutil.copytree(latest_checkpoint(line.log_dir), tmp_path / "copied")
    assert read_checkpoint(tmp_path / "copied").state == read_checkpoint(line.log_dir).state


# ---- resuming


def train(log_dir, callbacks, max_epoch=3, steps=None, resume="auto", **options):
    with tf.Graph().as_default():
        op = tf.get_variable("weight", [], initializer=tf.zeros_initializer()).assign_add(1.0)
        saver = PeriodicTrigger(ModelSaver(**options), every_k_steps=4)
        hooks = as_session_hooks(
            [*callbacks, saver],
            steps_per_epoch=3,
            max_epoch=max_epoch,
            log_dir=log_dir,
            monitors=[],
            resume=resume,
        )
        done = 0
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop() and done != steps:
                sess.run(op)
                done += 1


def test_files_are_loaded_right_after_the_state(tmp_path, memory):
    train(tmp_path / "run", [memory], steps=6)
    again = PeriodicTrigger(Memory(tmp_path / "again"), every_k_epochs=2)
    with pytest.raises(
        CheckpointError, match=r"callbacks that this run lacks: Memory\. .* has: ModelSaver|Periodic"
    ):
        train(tmp_path / "run", [again])
    again = Memory(tmp_path / "again")
    train(tmp_path / "run", [again])
    assert again.calls == ["state", "files"]
    assert again.steps() == list(range(1, 10))
    wrapped = PeriodicTrigger(Memory(tmp_path / "third"), every_k_epochs=2)
    train(tmp_path / "wrapped", [wrapped], steps=4)
    train(tmp_path / "wrapped", [wrapped])
    assert wrapped.callback.calls[-2:] == ["state", "files"]
    assert wrapped.callback.steps() == list(range(1, 10))


def test_two_of_one_name_and_one_without_a_state(tmp_path):
    loaded = []

    def make(number):
        cb = Another(lambda directory: (directory / "n").write_text(str(number)), "../Same (name)")
        cb.load_files = lambda directory: loaded.append((directory / "n").read_text())
        return cb

    for _ in range(2):
        train(tmp_path, [make(1), make(2), Another(lambda directory: None)])
    assert loaded == ["1", "2"]
    folders = sorted(path.name for path in read_checkpoint(tmp_path).callback_files.iterdir())
    assert folders == [folder_of("../Same (name)"), folder_of("../Same (name)#2")]


def test_files_of_unknown_callbacks(tmp_path):
    train(tmp_path, [Another(lambda directory: (directory / "a").touch())], steps=4)
    with pytest.raises(CheckpointError, match="callbacks that this run lacks: Another"):
        train(tmp_path, [])
    with pytest.raises(
        CallbackStateError, match=r"contains files of Another in .*has no load_files\(directory\)"
    ):
        train(tmp_path, [Another(lambda directory: None)])


def test_a_flow_that_is_a_callback_keeps_its_two_states_apart(tmp_path):
    class Both(Memory):
        def __iter__(self):
            return iter(())

        def reset_state(self):
            pass

        def state_dict(self):
            return {"of": "the flow"}

        def callback_state_dict(self):
            return {"of": "the callback"}

        def load_callback_state_dict(self, state):
            self.calls.append(state["of"])

    both = Both(tmp_path / "memory")
    train(tmp_path / "run", [both], steps=4)
    both.calls.clear()
    train(tmp_path / "run", [both])
    assert both.calls == ["the callback", "files"]


@given(st.lists(st.text(max_size=300), min_size=2, max_size=2, unique=True))
def test_folders_differ_and_are_names_of_files(keys):
    one, other = map(folder_of, keys)
    assert one != other
    for key, folder in zip(keys, (one, other)):
        assert len(os.fsencode(folder)) < 255
        assert not {"/", "\0"} & set(folder) and folder not in {".", ".."}
        assert len(folder) > 200 or key_of(folder) == key


# ---- failures leave nothing


@pytest.mark.parametrize("on_error", ["stop", "warn"])
def test_a_full_disk(line, caplog, on_error):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def save(directory):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
            (directory / "large").write_bytes(bytes(1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    message = r"model-3 could not be written: .*File too large.* are complete"
    if on_error == "stop":
        with pytest.raises(CheckpointWriteError, match=message):
            line.run([ModelSaver(), Another(save)])
    else:
        assert line.run([ModelSaver(on_error="warn"), Another(save)]) == 6
        assert caplog.text.count("File too large") == 2
    assert not os.listdir(line.log_dir)


def test_an_error_of_the_callback_is_its_own(line):
    def save(directory):
        (directory / "some").touch()
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        line.run([ModelSaver(on_error="warn"), Another(save)])
    assert not os.listdir(line.log_dir)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc", path)], ids=["pipe", "link"])
def test_objects_that_are_not_files(line, make):
    with pytest.raises(CheckpointWriteError, match=r"of the callback Another wrote odd, .* os\.link"):
        line.run([ModelSaver(), Another(lambda directory: make(directory / "odd"))])
    assert not os.listdir(line.log_dir)


def test_a_state_that_cannot_be_saved(line):
    bad = Another(lambda directory: None)
    bad.state_dict = lambda: {"bad": object()}
    with pytest.raises(CheckpointWriteError, match="which JSON cannot express"):
        line.run([ModelSaver(), bad])
    assert not os.listdir(line.log_dir)


def test_leftovers_of_a_kill_are_removed(line, memory):
    left = line.log_dir / ".writing-model-3-1-1" / "callbacks" / "Memory" / "below"
    left.mkdir(parents=True)
    (left / "sealed-0").write_bytes(b"1")
    (left / "sealed-0").chmod(0o444)
    line.run([memory, ModelSaver()])
    assert sorted(os.listdir(line.log_dir)) == ["latest", "memory", "model-3", "model-6"]


# ---- the disk


def test_shared_files_count_once_and_stay_as_long_as_a_checkpoint_has_them(line, memory, caplog):
    caplog.set_level("INFO")
    line.run([memory, ModelSaver(keep_last=2), MaxSaver("steps")], max_epoch=4)
    kept = all_checkpoints(line.log_dir)
    assert [path.name for path in kept] == ["model-9", "model-12"]
    [told] = [text for text in caplog.messages if "on the disk" in text]
    assert told.startswith(f"Checkpoints in {line.log_dir}: 2, using ")
    alone = [disk_usage([path]) for path in kept]
    assert alone[1] < disk_usage(kept) < sum(alone) - 3 * 200_000
    shutil.rmtree(memory.directory)
    for path in (*kept, line.log_dir / "max-steps"):
        read_checkpoint(path)
    assert os.stat(line.log_dir / "latest/callbacks/Memory/sealed-0").st_nlink == 3


def test_disk_usage_is_logged_at_the_end_if_nothing_was_removed(line, caplog):
    caplog.set_level("INFO")
    line.run([ModelSaver()])
    [told] = [text for text in caplog.messages if "on the disk" in text]
    assert told.startswith(f"Checkpoints in {line.log_dir}: 2, using ")


def test_commands_know_files(line, memory, capsys):
    line.run([memory, ModelSaver()])
    assert main(["checkpoint", "ls", str(line.log_dir), "--verify"]) == 0
    listing = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in listing[1:3]] == ["verified", "latest"]
    assert listing[3].endswith("kB on the disk in total, since some share files")
    one, other = map(str, all_checkpoints(line.log_dir))
    assert main(["checkpoint", "diff", one, other]) == 0
    out = capsys.readouterr().out
    assert "files: 2 equal, 1 differ\n  only in B  Memory/sealed-1\n" in out


def test_the_kit_checks_files(tmp_path):
    check_callback(lambda: Memory(tmp_path / "memory"), tmp_path / "good")
    with pytest.raises(AssertionError, match=r"does not restore the files of save_files\(directory\)"):
        check_callback(lambda: Another(lambda directory: (directory / "a").touch()), tmp_path / "bad")


def test_a_checkpoint_without_its_folder_of_files_names_what_is_missing(line, memory):
    line.run([memory, ModelSaver()], max_epoch=1)
    path = latest_checkpoint(line.log_dir)
    shutil.rmtree(path / "callbacks")
    with pytest.raises(
        CheckpointError, match=r"/callbacks/Memory/.* is missing or damaged: .* another checkpoint"
    ):
        read_checkpoint(path)
