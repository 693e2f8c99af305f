"""A directory is replaced as a whole."""

import os

import pytest

from towerpack_callbacks.writing import replace_directory


def directory(path, content):
    path.mkdir()
    (path / content).touch()
    return path


@pytest.mark.parametrize("can_exchange", [True, False])
def test_the_new_directory_takes_the_old_ones_place(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr("towerpack_callbacks.writing._atomic_write._exchange", lambda one, other: False)
    path = directory(tmp_path / "model", "old")
    replace_directory(directory(tmp_path / ".aside", "new"), path)
    assert os.listdir(path) == ["new"]
    assert os.listdir(tmp_path) == ["model"]


def test_an_error_leaves_both_alone(tmp_path):
    path = directory(tmp_path / "model", "old")
    with pytest.raises(OSError, match="No such file"):
        replace_directory(tmp_path / ".aside", path)
    assert os.listdir(path) == ["old"]
    assert os.listdir(tmp_path) == ["model"]
