"""Resuming works in a log directory with copied links, and on a file system without links."""

import errno
import os
import shutil

import pytest

from towerpack_callbacks import MaxSaver, MinSaver, ModelSaver
from towerpack_callbacks.checkpoint import all_checkpoints, latest_checkpoint, read_checkpoint
from towerpack_trainers import SimpleTrainer

pytestmark = pytest.mark.slow


@pytest.fixture
def train(kit, configure, tmp_path):
    """Continues to the end of an epoch, of six steps each, and returns the first step."""

    def train(max_epoch, log_dir=tmp_path / "run", **changes):
        flow = kit.net_flow()
        flow.seed(1)
        config = configure(
            model=kit.Random(),
            dataflow=flow,
            callbacks=[ModelSaver(keep_last=2), MinSaver("cost"), MaxSaver("cost")],
            extra_callbacks=None,
            max_epoch=max_epoch,
            log_dir=log_dir,
            **{"resume": "auto", **changes},
        )
        trainer = SimpleTrainer(config)
        trainer.train()
        return trainer.loop.global_step - 6 * (max_epoch + 1 - trainer.loop.starting_epoch)

    return train


def names_in(log_dir):
    return sorted(name for name in os.listdir(log_dir) if name.startswith(("model", "max", "min", "latest")))


def test_a_copied_directory_always_resumes_from_its_latest_step(train, tmp_path):
    train(2)
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert not (copy / "latest").is_symlink()
    assert train(3, copy) == 12
    assert train(4, copy) == 18
    assert (copy / "latest").is_symlink()
    assert [path.name for path in all_checkpoints(copy)] == ["model-18", "model-24"]
    train(4)
    for name in ("latest", "min-cost", "max-cost"):
        one, other = (read_checkpoint(directory / name) for directory in (copy, tmp_path / "run"))
        assert one.state["loop"] == other.state["loop"]
        assert {key: value.tobytes() for key, value in one.variables.items()} == {
            key: value.tobytes() for key, value in other.variables.items()
        }
    assert names_in(copy) == names_in(tmp_path / "run")


def test_newer_steps_are_preferred_to_a_stale_copy_of_latest(train, tmp_path):
    train(2)
    (tmp_path / "run/latest").unlink()
    shutil.copytree(tmp_path / "run/model-6", tmp_path / "run/latest")
    assert train(3) == 12
    assert latest_checkpoint(tmp_path / "run").name == "model-18"


def test_a_directory_with_only_a_copy_of_latest_resumes_from_it(train, tmp_path):
    train(2)
    shutil.copytree(tmp_path / "run/latest", tmp_path / "other/latest")
    assert train(3, tmp_path / "other") == 12
    assert [path.name for path in all_checkpoints(tmp_path / "other")] == ["model-12", "model-18"]


def test_a_new_run_moves_a_copy_of_latest_aside_with_its_directory(train, tmp_path):
    train(1)
    shutil.copytree(tmp_path / "run/latest", tmp_path / "other/latest")
    assert train(1, tmp_path / "other", resume=None) == 0
    assert read_checkpoint(tmp_path / "other.1").state["loop"]["global_step"] == 6


def test_a_file_system_without_links_has_files_in_their_place(train, tmp_path, monkeypatch):
    def refuse(*arguments, **more):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)
    train(2)
    assert (tmp_path / "run/latest").read_text() == "model-12\n"
    assert train(3) == 12
    assert [path.name for path in all_checkpoints(tmp_path / "run")] == ["model-12", "model-18"]
    assert latest_checkpoint(tmp_path / "run").name == "model-18"
    assert all(read_checkpoint(tmp_path / "run" / name) for name in ("min-cost", "max-cost"))
