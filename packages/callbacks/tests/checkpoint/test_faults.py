"""The latest complete checkpoint loads after disk errors and kills at any time."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from towerpack_callbacks import Callback, CheckpointWriteError, MaxSaver, ModelSaver
from towerpack_callbacks.checkpoint import (
    all_checkpoints,
    latest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)

HERE = Path(__file__).parent
COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """The library that makes calls fail."""
    library = tmp_path_factory.mktemp("faults") / "write_faults.so"
    command = [COMPILER, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, HERE / "write_faults.c"]
    subprocess.run([*command, "-ldl"], check=True)
    return library


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler, for what stands before the C library")
@pytest.mark.parametrize(
    "fault", ["ENOSPC", *(pytest.param(fault, marks=pytest.mark.long) for fault in ("EIO", "EACCES", "kill"))]
)
def test_every_call_that_writes_may_fail(faults, tmp_path, fault):
    result = subprocess.run(
        [sys.executable, HERE / "write_with_faults.py", faults, tmp_path, fault],
        env={**os.environ, "LD_PRELOAD": str(faults), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    trials = [json.loads(line) for line in result.stdout.splitlines()]
    for replaces in (False, True):
        some = [trial[1:] for trial in trials if trial[0] == replaces]
        assert len(some) > 30
        # In the last one there were not so many calls, and nothing failed.
        assert some[-1] == ["", "saved", 2]
        for struck, ended, found in some[:-1]:
            assert found in {1, 2}
            if ended == "saved":
                # What failed was the removal of what is no longer wanted, to make a directory that is
                # there, or to make a link, in whose place there is a file.
                assert found == 2
                assert struck in {"rename", "unlinkat", "rmdir", "mkdir", "symlink"}
            elif fault == "kill":
                assert ended == "killed"
            else:
                assert ended.startswith("CheckpointWriteError: The ")
                assert os.strerror(getattr(errno, fault)) in ended
                assert "\n" not in ended


# ---- real faults, in a training


class Accuracy(Callback):
    """Puts a better value each time."""

    def _trigger(self):
        self.trainer.monitors.put_scalar("accuracy", float(self.global_step))

    def produces(self):
        return ["accuracy"]


class At(Callback):
    """Does something after a step, when what was saved before is written."""

    def __init__(self, step, work):
        self.step, self.work = step, work

    def _trigger_step(self):
        if self.global_step == self.step:
            for thread in threading.enumerate():
                if thread.name.startswith("towerpack-checkpoint"):
                    thread.join()
            self.work()


@contextmanager
def file_size_limited():
    """Gives a function that lets files grow no larger than some bytes.

    A write beyond really fails, in TensorFlow's writer too. No fixture: pytest may write its own progress to
    a file, between the test and a fixture's end.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("background", [True, False], ids=["beside", "in step"])
@pytest.mark.parametrize("saver", [ModelSaver, lambda **options: MaxSaver("accuracy", **options)])
def test_a_file_that_may_not_grow_stops_the_training(line, saver, background):
    message = r"-6 could not be written: .*File too large.*are complete"
    with file_size_limited() as limit, pytest.raises(CheckpointWriteError, match=message):
        line.run([Accuracy(), saver(background=background), At(4, limit)], max_epoch=9)
    link = "latest" if saver is ModelSaver else "max-accuracy"
    assert read_checkpoint(line.log_dir / link).variables["global_step"] == 3
    assert not list(line.log_dir.glob(".writing-*"))


@pytest.mark.parametrize("background", [True, False], ids=["beside", "in step"])
def test_training_may_continue(line, caplog, background):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    saver = ModelSaver(on_error="warn", background=background)
    with file_size_limited() as limit:
        lift = At(8, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, unlimited))
        assert line.run([saver, At(4, limit), lift], max_epoch=3) == 9
    [told] = [text for text in caplog.messages if "could not be written" in text]
    assert "model-6 could not" in told
    assert told.endswith('Training continues because of on_error="warn".')
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-3", "model-9"]


def test_it_stops_before_the_next_save(line):
    """The failure of step 3's checkpoint must not wait until step 3000."""
    steps = []

    class Count(Callback):
        def _trigger_step(self):
            steps.append(self.global_step)
            if self.global_step > 3:
                assert self.trainer.coord.wait_for_stop(60)

    with file_size_limited() as limit, pytest.raises(CheckpointWriteError):
        line.run([At(1, limit), ModelSaver(), Count()], steps_per_epoch=3, max_epoch=1000)
    assert steps[-1] <= 4


def test_a_directory_that_vanishes(line):
    callbacks = [ModelSaver(), At(4, lambda: shutil.rmtree(line.log_dir))]
    with pytest.raises(CheckpointWriteError, match=r"model-6 could not be written: the directory .* is gone"):
        line.run(callbacks)
    assert not line.log_dir.exists()


def test_a_directory_that_is_a_file(line):
    (line.log_dir / "file").touch()
    saver = ModelSaver(checkpoint_dir=line.log_dir / "file" / "run")
    with pytest.raises(CheckpointWriteError, match=r"ModelSaver cannot write to .*Not a directory.*log_dir="):
        line.run([saver])


def test_an_old_one_that_cannot_be_removed_is_no_failure(line, monkeypatch, caplog):
    rename = os.rename

    def refuse(old, new):
        if Path(old).name == "model-3":
            raise OSError(errno.EACCES, "Permission denied", str(old))
        rename(old, new)

    monkeypatch.setattr(os, "rename", refuse)
    line.run([ModelSaver(keep_last=1)])
    assert "The old checkpoint" in caplog.text
    assert "could not be removed: [Errno 13] Permission denied" in caplog.text
    assert latest_checkpoint(line.log_dir).name == "model-6"


def test_where_names_cannot_be_exchanged(tmp_path, monkeypatch):
    monkeypatch.setattr("towerpack_callbacks.writing._atomic_write._exchange", lambda one, other: False)
    for writing in (1, 2):
        write_checkpoint(tmp_path / "model-1", {"a": np.zeros(3)}, {"writing": writing})
    assert read_checkpoint(tmp_path / "model-1").state == {"writing": 2}
    assert os.listdir(tmp_path) == ["model-1"]
