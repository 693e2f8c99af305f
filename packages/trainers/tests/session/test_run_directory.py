"""The directory of a run's files, and the treatment of an earlier run's files."""

import os
import subprocess
import sys

import pytest

from towerpack_callbacks import Callback, JSONWriter, ModelSaver, ScalarPrinter
from towerpack_callbacks.checkpoint import load_variables
from towerpack_trainers import ConfigError, SaverRestore, SimpleTrainer, SmartInit
from towerpack_trainers.session import RunDirectory


def train(configure, **changes):
    SimpleTrainer(configure(callbacks=[ModelSaver()], monitors=[JSONWriter()], **changes)).train()


def test_an_earlier_run_is_moved_aside(configure, tmp_path):
    for _ in range(3):
        train(configure)
        (tmp_path / "run" / "note.txt").write_text("mine")
    assert sorted(os.listdir(tmp_path)) == ["run", "run.1", "run.2"]
    for name in ("run", "run.1", "run.2"):
        assert (tmp_path / name / "latest").resolve().parent == tmp_path / name
        assert (tmp_path / name / "note.txt").exists()


def test_the_console_shows_the_directory_of_the_files(configure, tmp_path, capsys):
    for _ in range(2):
        SimpleTrainer(configure(callbacks=[ModelSaver()], monitors=[ScalarPrinter()])).train()
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("files")]
    run = tmp_path / "run"
    assert told == [
        f"files of this run: {run}",
        f"files of this run: {run} (those of an earlier run are now in {run}.1)",
    ]


def test_a_directory_without_a_run_is_used(configure, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "note.txt").write_text("mine")
    train(configure)
    assert os.listdir(tmp_path) == ["run"]


def test_a_resumed_run_is_not_moved(configure, tmp_path):
    train(configure, max_epoch=1)
    train(configure, max_epoch=2, resume="auto")
    train(configure, max_epoch=3, resume=tmp_path / "run" / "model-5")
    assert os.listdir(tmp_path) == ["run"]


class Beginning(Callback):
    """Records the initial slope of a training."""

    def _before_train(self):
        self.slope = self.trainer.sess.run("slope/Read/ReadVariableOp:0")


@pytest.mark.parametrize(
    ("load", "name"),
    [(SmartInit, "latest"), (SaverRestore, "model-10"), (lambda path: SmartInit([None, path]), "")],
)
def test_weights_of_the_moved_run(configure, tmp_path, monkeypatch, load, name):
    monkeypatch.chdir(tmp_path)
    train(configure, log_dir="run")
    started = Beginning()
    init = load(os.path.join("run", name))
    SimpleTrainer(configure(log_dir="run", session_init=init, callbacks=[started])).train()
    assert sorted(os.listdir(tmp_path)) == ["run", "run.1"]
    assert started.slope == load_variables(tmp_path / "run.1")["slope"] != 0


def test_a_run_resumed_from_elsewhere_is_not_mixed_with_another(configure, tmp_path):
    train(configure, max_epoch=1)
    train(configure, log_dir=tmp_path / "other")
    train(configure, log_dir=tmp_path / "other", resume=tmp_path / "run")
    assert sorted(os.listdir(tmp_path)) == ["other", "other.1", "run"]
    assert {"latest", "model-10"} == set(os.listdir(tmp_path / "other")) - {"environment.txt", "explain.txt"}


def test_resume_auto_with_nothing_to_resume_begins(configure, tmp_path):
    train(configure, resume="auto")
    assert (tmp_path / "run" / "model-10").is_dir()


def test_no_files_at_all(configure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SimpleTrainer(configure(log_dir=None, monitors=None, extra_callbacks=None)).train()
    assert os.listdir(tmp_path) == []


def test_callbacks_that_need_a_directory_raise_an_error(configure):
    with pytest.raises(ValueError, match="ModelSaver has nowhere to write: give log_dir="):
        SimpleTrainer(configure(log_dir=None, callbacks=[ModelSaver()])).train()
    with pytest.raises(ValueError, match=r"JSONWriter writes files, but this run has no log directory"):
        SimpleTrainer(configure(log_dir=None, monitors=[JSONWriter()])).train()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/run"])
def test_a_place_that_cannot_be_a_directory(configure, tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"log_dir='.*' cannot be made: .*Choose another"):
        train(configure, log_dir=tmp_path / place)


def test_a_place_that_cannot_be_written(configure, monkeypatch):
    # Tests may run as a user who may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r"log_dir='.*run' cannot be written to"):
        train(configure)


@pytest.mark.parametrize("place", [".", ".."])
def test_the_working_directory_is_never_moved(configure, tmp_path, monkeypatch, place):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    train(configure, log_dir=place, max_epoch=1)
    with pytest.raises(
        ConfigError,
        match=r"holds an earlier run, which cannot be moved aside: it is the working",
    ):
        train(configure, log_dir=place)
    train(configure, log_dir=place, resume="auto")


def test_a_dry_run_has_a_separate_directory_that_is_removed(tmp_path):
    with pytest.raises(ZeroDivisionError), RunDirectory(tmp_path / "run", dry_run=True) as directory:
        directory.prepare()
        (directory.path / "note.txt").write_text("mine")
        raise ZeroDivisionError
    assert not directory.path.exists()
    assert os.listdir(tmp_path) == []


def test_a_dry_run_without_a_directory_has_none():
    for dry_run in (False, True):
        with RunDirectory(None, dry_run) as directory:
            directory.prepare()
            assert directory.path is None


def test_a_run_stays_in_its_directory_when_it_is_resumed(tmp_path):
    (tmp_path / "run" / "model-5").mkdir(parents=True)
    RunDirectory(tmp_path / "run").prepare(resumed=tmp_path / "run" / "model-5")
    assert os.listdir(tmp_path) == ["run"]
    RunDirectory(tmp_path / "run").prepare(resumed=tmp_path / "elsewhere" / "model-5")
    assert sorted(os.listdir(tmp_path)) == ["run", "run.1"]


def test_a_link_stays_and_its_target_is_moved_on_its_own_disk(configure, tmp_path):
    (tmp_path / "disk" / "big").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "big")
    for _ in range(2):
        train(configure)
    assert sorted(os.listdir(tmp_path / "disk")) == ["big", "big.1"]
    assert (tmp_path / "run").readlink() == tmp_path / "disk" / "big"
    assert sorted(os.listdir(tmp_path)) == ["disk", "run"]


def test_a_dangling_link_is_followed(configure, tmp_path):
    (tmp_path / "run").symlink_to("disk/big")
    train(configure)
    assert (tmp_path / "disk" / "big" / "latest").exists()


def test_links_in_a_circle_are_refused(configure, tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"log_dir='.*run' cannot be made: .*Choose another"):
        train(configure)


@pytest.mark.parametrize("name", ["model-notes.txt", "model-5.txt", "latest", "stats.json", "events.out"])
def test_files_of_the_user_are_not_an_earlier_run(tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).touch()
    with RunDirectory(tmp_path / "run") as directory:
        directory.prepare()
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize(
    "name", ["stats.jsonl", "stats.csv", "events.out.tfevents.1.host", "model-7/", "max-a-7/"]
)
def test_each_kind_of_file_marks_a_run(tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir()
    path.mkdir() if name.endswith("/") else path.touch()
    with RunDirectory(tmp_path / "run") as directory:
        directory.prepare()
    assert sorted(os.listdir(tmp_path)) == ["run", "run.1"]
    assert os.listdir(tmp_path / "run.1") == [path.name]
    assert os.listdir(tmp_path / "run") == []


def test_the_mode_of_the_directory_is_kept(tmp_path):
    (tmp_path / "run" / "model-7").mkdir(parents=True)
    (tmp_path / "run").chmod(0o2770)
    with RunDirectory(tmp_path / "run") as directory:
        directory.prepare()
    assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o2770


_AT_A_MOUNT_POINT = """
from pathlib import Path
from towerpack_trainers.session import RunDirectory
import os, sys

place = Path(sys.argv[1])
for _ in range(2):
    (place / "model-7").mkdir()
    (place / "note.txt").touch()
    with RunDirectory(place) as directory:
        directory.prepare()
        beside = RunDirectory(place, if_taken="new")
        assert beside.path == place / "run-2", beside.path
    beside.__exit__(None, None, None)
    os.rmdir(beside.path)
print(*sorted(str(path.relative_to(place)) for path in place.rglob("*")))
"""


@pytest.mark.slow
def test_at_a_mount_point_the_earlier_run_stays_on_its_disk(tmp_path):
    (tmp_path / "volume").mkdir()
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']
    if subprocess.run([*mount, tmp_path / "volume", "true"], capture_output=True, check=False).returncode:
        pytest.skip("This system lets nobody mount.")
    script = [sys.executable, "-c", _AT_A_MOUNT_POINT, tmp_path / "volume"]
    done = subprocess.run([*mount, tmp_path / "volume", *script], capture_output=True, text=True, check=True)
    moved = [f"earlier.{n}{name}" for n in (1, 2) for name in ("", "/model-7", "/note.txt")]
    assert done.stdout.split() == moved
    assert os.listdir(tmp_path) == ["volume"]
