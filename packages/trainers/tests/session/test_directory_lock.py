"""One log directory, one run."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from towerpack_callbacks import Callback, JSONWriter, ModelSaver, PeriodicTrigger
from towerpack_trainers import ConfigError, LogDirTakenError, SimpleTrainer, TrainConfig, fast_dev_run
from towerpack_trainers.session import RunDirectory

LOCK = ".running"

# Holds a directory; a child that lives until the test's end inherits the lock.
HOLD = """
import os, sys
from pathlib import Path
from towerpack_trainers.session import RunDirectory

directory = RunDirectory(Path(sys.argv[1]))
directory.prepare()
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds `tmp_path / "run"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()
        process.stdin.close()


class During(Callback):
    """Calls a function in the middle of a training."""

    def __init__(self, call):
        self._call = call

    def _before_epoch(self):
        if self.epoch_num == 1:
            self._call()


@pytest.mark.slow
def test_the_other_process_is_named_and_a_killed_one_ignored(holder, tmp_path):
    with pytest.raises(
        LogDirTakenError, match=rf"run' is used by another running training: .*process {holder.pid} on "
    ):
        RunDirectory(tmp_path / "run")
    directory = RunDirectory(tmp_path / "run", if_taken="new")
    assert directory.path == tmp_path / "run-2"
    holder.kill()
    holder.wait()
    with RunDirectory(tmp_path / "run") as directory:
        directory.prepare()
        with pytest.raises(LogDirTakenError, match="this process on"):
            RunDirectory(tmp_path / "run")
    assert os.listdir(tmp_path / "run") == []


def test_a_second_run_is_refused_and_the_first_continues(configure, tmp_path):
    refused = []

    def start_again():
        for resume in (None, "auto"):
            with pytest.raises(LogDirTakenError, match=r"or TrainConfig\(if_log_dir_taken=") as error:
                SimpleTrainer(configure(resume=resume))
            refused.append(str(error.value))

    callbacks = [During(start_again), ModelSaver()]
    SimpleTrainer(configure(callbacks=callbacks, monitors=[JSONWriter()])).train()
    assert len(refused) == 2
    assert f"this process on {os.uname().nodename}" in refused[0]
    assert sorted(os.listdir(tmp_path)) == ["run"]
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_run_made_before_the_first_began_is_refused_too(configure):
    second = SimpleTrainer(configure())

    def train_second():
        with pytest.raises(LogDirTakenError):
            second.train()

    SimpleTrainer(configure(callbacks=[During(train_second)])).train()


def test_a_second_run_gets_a_new_directory(configure, tmp_path):
    made = []

    def start_again():
        for _ in range(2):
            trainer = SimpleTrainer(
                configure(if_log_dir_taken="new", callbacks=[ModelSaver()], resume="auto", max_epoch=1)
            )
            thread = threading.Thread(target=trainer.train)
            thread.start()
            thread.join()
            made.append(trainer.log_dir)

    SimpleTrainer(configure(callbacks=[ModelSaver(), During(start_again)])).train()
    assert made == [tmp_path / "run-2", tmp_path / "run-3"]
    for name, step in [("run", 10), ("run-2", 5), ("run-3", 5)]:
        assert (tmp_path / name / "latest").resolve() == tmp_path / name / f"model-{step}"
        assert not (tmp_path / name / LOCK).exists()


def test_new_uses_the_directory_itself_if_it_is_free(configure, tmp_path):
    for _ in range(2):
        SimpleTrainer(configure(if_log_dir_taken="new", callbacks=[ModelSaver()])).train()
    assert sorted(os.listdir(tmp_path)) == ["run", "run.1"]


def test_many_at_once_get_one_each(tmp_path):
    directories = []
    threads = [
        threading.Thread(target=lambda: directories.append(RunDirectory(tmp_path / "run", if_taken="new")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({directory.path for directory in directories}) == 8
    assert {directory.path.name for directory in directories} == {"run", *(f"run-{n}" for n in range(2, 9))}


def test_a_trainer_that_never_trains_holds_nothing(configure):
    waiting = SimpleTrainer(configure())
    waiting.explain()
    SimpleTrainer(configure()).train()
    waiting.train()


def test_a_failed_training_releases_the_lock(configure, kit, tmp_path):
    with pytest.raises(ZeroDivisionError):
        SimpleTrainer(configure(callbacks=[During(lambda: 1 / 0)])).train()
    SimpleTrainer(configure()).train()


def test_a_dry_run_is_possible_during_the_run(configure):
    dry_run = During(lambda: SimpleTrainer(fast_dev_run(configure())).train())
    SimpleTrainer(configure(callbacks=[dry_run])).train()


def test_a_directory_around_a_running_training_is_not_moved(tmp_path):
    outer, inner = tmp_path / "run", tmp_path / "run" / "inner"
    with RunDirectory(inner) as running:
        running.prepare()
        (inner / "note.txt").touch()
        (outer / "stats.jsonl").touch()
        with RunDirectory(outer) as directory:
            directory.prepare()
            assert (inner / "note.txt").exists()
            assert sorted(os.listdir(outer)) == [LOCK, "earlier.1", "inner"]
            assert os.listdir(outer / "earlier.1") == ["stats.jsonl"]


@pytest.mark.parametrize("content", ["", "{}", "no JSON", json.dumps({"pid": 1})])
def test_the_file_of_a_killed_run_is_not_a_lock(tmp_path, content):
    (tmp_path / LOCK).write_text(content)
    with RunDirectory(tmp_path) as directory:
        directory.prepare()
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("birth", ["now", "earlier"])
def test_the_file_decides_on_a_file_system_without_locks(tmp_path, monkeypatch, birth):
    def flock(descriptor, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with RunDirectory(tmp_path) as running:
        running.prepare()
        if birth == "now":
            with pytest.raises(LogDirTakenError, match=rf"remove {tmp_path / LOCK}"):
                RunDirectory(tmp_path)
        else:  # the number of that process now belongs to another one
            holder = json.loads((tmp_path / LOCK).read_text())
            (tmp_path / LOCK).write_text(json.dumps({**holder, "birth": "1"}))
            another = RunDirectory(tmp_path)
            another.prepare()
        holder = json.loads((tmp_path / LOCK).read_text())
        (tmp_path / LOCK).write_text(json.dumps({**holder, "host": "elsewhere", "system": "another"}))
        with pytest.raises(LogDirTakenError, match=r"process \d+ on elsewhere, since"):
            RunDirectory(tmp_path)


def test_the_argument_is_checked():
    with pytest.raises(ConfigError, match=r"\(if_log_dir_taken='ask'\): expected \"refuse\" or \"new\""):
        TrainConfig(if_log_dir_taken="ask")


@pytest.mark.parametrize(
    "wrap", [lambda saver: saver, lambda saver: PeriodicTrigger(saver, every_k_epochs=1)]
)
def test_a_savers_directory_is_one_runs_too(configure, tmp_path, wrap):
    """Runs with different log directories would remove each other's checkpoints in it."""
    shared, refused = tmp_path / "shared", []

    def train(log_dir, *callbacks):
        savers = [wrap(ModelSaver(keep_last=1, checkpoint_dir=shared))]
        SimpleTrainer(configure(log_dir=log_dir, callbacks=[*savers, *callbacks])).train()

    def start_another(log_dir):
        with pytest.raises(LogDirTakenError, match=r"shared' is used by another run.*checkpoint_dir="):
            train(log_dir)
        refused.append(log_dir)

    SimpleTrainer(configure(log_dir=tmp_path / "other", monitors=[JSONWriter()])).train()
    others = [tmp_path / "other", None, shared]
    train(tmp_path / "run", During(lambda: [start_another(log_dir) for log_dir in others]))
    assert refused == others
    # A refused run has moved nothing, and a finished run holds nothing.
    assert sorted(os.listdir(tmp_path)) == ["other", "run", "shared"]
    assert sorted(os.listdir(shared)) == ["latest", "model-10"]
    train(None)


def test_a_savers_directory_inside_of_the_log_directory_is_moved_with_it(configure, tmp_path):
    for _ in range(2):
        inside = ModelSaver(checkpoint_dir=tmp_path / "run" / "inside")
        SimpleTrainer(configure(callbacks=[ModelSaver(), inside])).train()
    for name in ("run", "run.1"):
        assert sorted(os.listdir(tmp_path / name / "inside")) == ["latest", "model-10", "model-5"]
