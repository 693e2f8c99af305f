"""A file is replaced atomically."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_that_a_link_leads_to_is_replaced_with_its_mode(tmp_path, durable):
    (tmp_path / "below").mkdir()
    target, link = tmp_path / "below" / "file", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("below/file")
    with atomic_write(link, durable=durable) as aside:
        aside.write_text("new")
    assert link.is_symlink() and target.read_text() == "new" and target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "below") == ["file"]


def test_names_as_long_as_the_system_takes(tmp_path):
    with atomic_write(tmp_path / ("x" * 255)) as aside:
        aside.write_text("new")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_a_directory_or_device_is_refused_before_anything_is_written(tmp_path):
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match=rf"expected a file, or a new path.*{path}"), atomic_write(path):
            pytest.fail("there is nothing to write")
    assert not os.listdir(tmp_path)


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as first:
        first.write_text("first")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["file"]


@pytest.mark.slow
def test_the_next_writer_removes_what_a_killed_one_has_left(tmp_path):
    path = tmp_path / "file"
    code = (
        "import os, signal, sys, pathlib\n"
        "from towerpack_callbacks.writing import atomic_write\n"
        "with atomic_write(pathlib.Path(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], timeout=60).returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    with atomic_write(path) as aside:
        aside.write_text("new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device.*file"), atomic_write(tmp_path / "file"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not os.listdir(tmp_path)
