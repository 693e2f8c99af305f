"""The plan of a run."""

import os

import pytest

from towerpack_callbacks import Callbacks, Monitor
from towerpack_trainers import LogDirTakenError
from towerpack_trainers.config import RunPlan
from towerpack_trainers.session import SingleProcess


class Listener(Monitor):
    """Keeps the messages."""

    def __init__(self):
        self.messages = []

    def process_message(self, text):
        self.messages.append(text)


def plan(configure, **changes):
    return RunPlan(configure(**changes), SingleProcess())


def test_it_follows_from_the_configuration(configure, tmp_path):
    made = plan(configure, seed=7, max_epoch=3)
    assert (made.log_dir, made.seed, made.loop.max_epoch) == (tmp_path / "run", 7, 3)
    assert made.start.path is None
    assert made.state(Callbacks([]), None, ()).state_dict()["seed"] == 7
    assert not (tmp_path / "run").exists()


def test_the_directory_is_locked_and_reported(configure, tmp_path):
    listener = Listener()
    made = plan(configure, monitors=[listener])
    with made.directory:
        made.acquire(Callbacks([]), "what it is made of")
        assert listener.messages == [f"files of this run: {tmp_path / 'run'}"]
        with pytest.raises(LogDirTakenError):
            plan(configure)
    assert sorted(os.listdir(tmp_path / "run")) == ["environment.txt", "explain.txt"]
    assert (tmp_path / "run" / "explain.txt").read_text() == "what it is made of\n"
