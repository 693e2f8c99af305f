"""Pointers to checkpoints: links, files without support for links, and copied directories."""

import errno
import os
import shutil

import numpy as np
import pytest

from towerpack_callbacks import CheckpointWriteError
from towerpack_callbacks.checkpoint import (
    latest_checkpoint,
    load_variables,
    read_checkpoint,
    write_checkpoint,
)
from towerpack_callbacks.checkpoint.format import linked, point_to, pointers_in, target_of


def write(directory, step, name=None):
    """Writes a small checkpoint of a step."""
    state = {"loop": {"global_step": step}, "callbacks": {}}
    path = directory / (name or f"model-{step}")
    return write_checkpoint(path, {"w": np.float32([step])}, state)


def copied(directory):
    """Copies a log directory as `scp -r` does, which follows links."""
    return shutil.copytree(directory, directory.with_name(f"{directory.name}-copied"))


def forbid_links(monkeypatch, code=errno.EPERM):
    def refuse(*arguments, **more):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)


def as_link(directory, name, target):
    (directory / name).symlink_to(target)


def as_file(directory, name, target):
    (directory / name).write_text(f"{target}\n")


def as_copy(directory, name, target):
    shutil.copytree(directory / target, directory / name)


FORMS = pytest.mark.parametrize("put", [as_link, as_file, as_copy])


@FORMS
def test_a_name_of_each_form_leads_to_its_checkpoint(tmp_path, put):
    for step in (5, 10):
        write(tmp_path, step)
    put(tmp_path, "latest", "model-10")
    assert load_variables(tmp_path / "latest")["w"] == 10
    assert read_checkpoint(tmp_path / "latest").state["loop"]["global_step"] == 10
    assert latest_checkpoint(tmp_path).name == "model-10"
    assert linked(tmp_path) == {(tmp_path / "model-10").resolve()}


@FORMS
@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_name_of_each_form_is_set_to_another_checkpoint(tmp_path, monkeypatch, put, links):
    for step in (5, 10):
        write(tmp_path, step)
    put(tmp_path, "latest", "model-5")
    if not links:
        forbid_links(monkeypatch)
    point_to(tmp_path / "latest", tmp_path / "model-10")
    assert (tmp_path / "latest").is_symlink() == links
    assert target_of(tmp_path / "latest") == (tmp_path / "model-10").resolve()
    assert sorted(os.listdir(tmp_path)) == ["latest", "model-10", "model-5"]


def test_the_newest_whole_step_is_taken_where_latest_is_a_stale_copy(tmp_path, caplog):
    for step in (10, 15, 20):
        write(tmp_path, step)
    as_copy(tmp_path, "latest", "model-10")
    (tmp_path / "model-20/variables.data-00000-of-00001").unlink()
    assert latest_checkpoint(tmp_path).name == "model-15"
    assert "model-20 is incomplete: variables.data-00000-of-00001 is missing" in caplog.text


def test_a_copy_that_is_newer_than_all_others_is_taken_and_gets_its_own_name(tmp_path):
    write(tmp_path, 5)
    write(tmp_path, 10, "latest")
    assert latest_checkpoint(tmp_path).name == "latest"
    write(tmp_path, 15)
    point_to(tmp_path / "latest", tmp_path / "model-15")
    assert load_variables(tmp_path / "model-10")["w"] == 10
    assert target_of(tmp_path / "latest").name == "model-15"


def test_a_copy_whose_name_another_checkpoint_has_is_moved_aside(tmp_path, caplog):
    write(tmp_path, 10, "latest")
    write_checkpoint(tmp_path / "model-10", {"w": np.float32([-1])}, {})
    point_to(tmp_path / "latest", tmp_path / "model-10")
    assert load_variables(tmp_path / "latest.1")["w"] == 10
    assert load_variables(tmp_path / "latest")["w"] == -1
    assert "latest is a directory, expected a link; renamed it to latest.1" in caplog.text


def test_a_directory_that_is_no_checkpoint_is_moved_aside_and_never_removed(tmp_path):
    (tmp_path / "max-accuracy").mkdir()
    (tmp_path / "max-accuracy/notes").write_text("mine")
    point_to(tmp_path / "max-accuracy", write(tmp_path, 7, "max-accuracy-7"))
    assert (tmp_path / "max-accuracy.1/notes").read_text() == "mine"
    assert load_variables(tmp_path / "max-accuracy")["w"] == 7


def test_the_copy_of_a_best_one_stands_for_its_twin(tmp_path):
    log_dir = tmp_path / "run"
    for name in ("max-accuracy-7", "model-7", "model-9"):
        write(log_dir, int(name[-1]), name)
    as_link(log_dir, "max-accuracy", "max-accuracy-7")
    as_link(log_dir, "of-the-paper", "model-9")
    names = {pointer.name: target.name for pointer, target in pointers_in(copied(log_dir)).items()}
    assert names == {"max-accuracy": "max-accuracy-7", "of-the-paper": "model-9"}


@pytest.mark.parametrize(
    "text", ["", "..", "model-5/../model-5", "model-6", "r,l,t\n0.8,4,0.3\n", "\xff" * 300]
)
def test_a_file_that_names_no_checkpoint_stands_for_none(tmp_path, text):
    write(tmp_path, 5)
    (tmp_path / "latest").write_text(text, encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert pointers_in(tmp_path) == {}
    assert latest_checkpoint(tmp_path).name == "model-5"


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs a file longer than its size says")
def test_a_text_that_is_longer_than_its_size_said_stands_for_none(tmp_path):
    # Like a table to which another thread adds a row between the check of its size and the read.
    (tmp_path / "latest").symlink_to("/proc/self/status")
    assert target_of(tmp_path / "latest") is None


def test_a_name_that_cannot_be_set_is_an_error_and_stands_for_what_it_did(tmp_path, monkeypatch):
    for step in (5, 10):
        write(tmp_path, step)
    as_link(tmp_path, "latest", "model-5")
    monkeypatch.setattr(
        os, "replace", lambda *names: (_ for _ in ()).throw(OSError(errno.EROFS, "read-only"))
    )
    with pytest.raises(CheckpointWriteError, match=r"latest could not be set to model-10.*read-only"):
        point_to(tmp_path / "latest", tmp_path / "model-10")
    assert target_of(tmp_path / "latest").name == "model-5"
    assert sorted(os.listdir(tmp_path)) == ["latest", "model-10", "model-5"]
