"""A file is replaced as a whole or not at all."""

import os

import pytest

from towerpack_callbacks.writing import atomic_write


@pytest.mark.parametrize("durable", [False, True])
def test_the_new_file_takes_the_old_ones_place(tmp_path, durable):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path, durable=durable) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as aside:
        aside.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_can_be_moved(tmp_path):
    path = tmp_path / "latest"
    path.symlink_to("one")
    with atomic_write(path, tmp_path / ".aside") as aside:
        aside.symlink_to("two")
    assert os.readlink(path) == "two"
    assert os.listdir(tmp_path) == ["latest"]
