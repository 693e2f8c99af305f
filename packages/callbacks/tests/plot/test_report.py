"""The page about one run: of real trainings, and of directories that are damaged."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from towerpack_callbacks import (
    Callback,
    JSONWriter,
    LogFile,
    ModelSaver,
    RunRecord,
    TFEventWriter,
)
from towerpack_callbacks.__main__ import main
from towerpack_callbacks.plot import find_event_images, read_record

EVIL = "</script><script>alert(1)</script> & täte"


class Put(Callback):
    def _trigger(self):
        self.trainer.monitors.put_scalar(EVIL, self.epoch_num)
        self.trainer.monitors.put_image("noise", np.full((2, 3, 3), self.epoch_num))
        self.trainer.monitors.put_message(EVIL)


@pytest.fixture
def run(line):
    """The directory of a small run."""
    monitors = [JSONWriter(), TFEventWriter(), LogFile(), RunRecord()]
    line.run([Put(), ModelSaver()], monitors=monitors)
    (line.log_dir / "explain.txt").write_text(EVIL)
    return line.log_dir


@pytest.fixture
def report(tmp_path, capsys):
    """Makes a report, and returns status, page, and what was said."""

    def make(directory):
        page = tmp_path / "report.html"
        status = main(["report", str(directory), "-o", str(page)])
        return status, page.read_text() if page.exists() else "", capsys.readouterr().err

    return make


def test_a_page_has_all_parts_and_escapes_them(run, report):
    status, page, notes = report(run)
    assert (status, notes) == (0, "")
    for part in ("Where the time went", "Starts", "How to resume", "Position of the data", "Environment"):
        assert part in page
    assert f"resume=&#x27;{run.resolve() / 'model-6'}&#x27;" in page
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "") and "https:" not in page


def test_a_page_shows_the_end_of_a_run(tmp_path, report):
    end = {"event": "end", "time": 9, "epoch": 1, "step": 2}
    start = {**end, "event": "start", "format": 1}
    error = {"reason": f"ValueError: {EVIL}", "traceback": f"Traceback:\n{EVIL}"}
    for last, told, untold in (
        ({**end, **error}, "ValueError: &lt;/script&gt;", "<script>alert"),
        (
            {**end, "reason": "accuracy reached"},
            "step 2, in epoch 1; started once. accuracy reached.",
            "Traceback",
        ),
        (end, "step 2, in epoch 1; started once.", "Traceback"),
        ({**end, "reason": 5, "traceback": [None]}, "started once. 5.", "NoneType"),
    ):
        (tmp_path / "run.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(last)}\n")
        status, page, _ = report(tmp_path)
        assert status == 0 and told in page and untold not in page
        assert ("<summary>Traceback" in page) is ("traceback" in last)


def test_images_are_read_from_event_files(run):
    (images,) = find_event_images(run).values()
    assert [step for step, _ in images] == [3, 6]
    assert all(image.read_bytes().startswith(b"\x89PNG") for _, image in images)


def test_an_event_file_ends_at_its_first_damage(run):
    (file,) = run.glob("events.out.tfevents.*")
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        find_event_images(run)
    damaged = np.frombuffer(whole, np.uint8)
    for seed in range(30):
        copy = damaged.copy()
        copy[np.random.default_rng(seed).integers(0, len(copy), 20)] = seed
        file.write_bytes(copy.tobytes())
        find_event_images(run)


@pytest.mark.parametrize("name", ["stats.jsonl", "run.jsonl", "explain.txt", "log.log", "latest/state.json"])
def test_a_file_that_is_missing_or_damaged_leaves_the_rest(run, report, name):
    (run / name).write_bytes(b"\xff\x00 no json\n")
    status, page, notes = report(run)
    assert status == 0 and "How to resume" in page
    assert name.split("/")[-1] in notes or name.endswith((".txt", ".log"))
    (run / name).unlink()
    assert report(run)[0] == 0


def test_directories_without_a_run(tmp_path, report):
    (tmp_path / "empty").mkdir()
    for name, error in (("empty", "empty contains no run"), ("nowhere", "there is no directory")):
        status, page, said = report(tmp_path / name)
        assert status == 1 and not page
        assert error in said and said.count("\n") == 1


_TRAINING = """
import os, signal
import tensorflow.compat.v1 as tf
from towerpack_callbacks import *

class Die(Callback):
    def _trigger_step(self):
        if self.global_step == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

with tf.Graph().as_default():
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    train_op = tf.assign_add(weight, 1.0).op
    callbacks = [PeriodicTrigger(ModelSaver(background=False), every_k_epochs=2), Die()]
    hooks = as_session_hooks(callbacks, steps_per_epoch=5, max_epoch=6, log_dir=log_dir, resume="auto")
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)
"""


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_a_killed_and_continued_run(tmp_path, report):
    place = str(tmp_path / "run")
    script = f"log_dir, last_step = {place!r}, 18\n{_TRAINING}"
    killed = subprocess.run([sys.executable, "-c", script], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL  # in epoch 4; the checkpoint is of step 10
    exec(_TRAINING, {"log_dir": place, "last_step": -1})
    first, second = read_record(tmp_path / "run")[0]
    assert (first.ended, second.ended) == (False, True)
    assert first.events[-1].step == 15 and second.events[0].step == 10 and second.events[-1].step == 30
    status, page, _ = report(tmp_path / "run")
    assert status == 0 and "started 2 times" in page and "lost since a checkpoint" in page
