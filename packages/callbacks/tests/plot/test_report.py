"""The page of runs: of real trainings, and of directories that are damaged."""

import html
import json
import os
import re
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
from towerpack_callbacks.checkpoint import write_checkpoint
from towerpack_callbacks.plot import read_events, read_record
from towerpack_callbacks.writing import write_picture

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
    for part in ("Where the time went", "Starts", "To resume", "Position of the data", "Configuration"):
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
    (images,) = read_events(run).images.values()
    assert list(images) == [3, 6]
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images.values())


def test_an_event_file_ends_at_its_first_damage(run):
    (file,) = run.glob("events.out.tfevents.*")
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        read_events(run)
    damaged = np.frombuffer(whole, np.uint8)
    for seed in range(30):
        copy = damaged.copy()
        copy[np.random.default_rng(seed).integers(0, len(copy), 20)] = seed
        file.write_bytes(copy.tobytes())
        read_events(run)


@pytest.mark.parametrize("name", ["stats.jsonl", "run.jsonl", "explain.txt", "log.log", "latest/state.json"])
def test_a_file_that_is_missing_or_damaged_leaves_the_rest(run, report, name):
    (run / name).write_bytes(b"\xff\x00 no json\n")
    status, page, notes = report(run)
    assert status == 0 and "To resume" in page
    assert name.split("/")[-1] in notes or name.endswith((".txt", ".log"))
    (run / name).unlink()
    assert report(run)[0] == 0


def test_directories_without_a_run(tmp_path, report):
    (tmp_path / "empty").mkdir()
    for name, error in (("empty", "empty contains no run"), ("nowhere", "nowhere (yet); expected")):
        status, page, said = report(tmp_path / name)
        assert status == 1 and not page
        assert error in said and said.count("\n") == 1


def text_of(page):
    """The page as a reader sees it, without the data of its charts."""
    body = page.partition('<div id="head"')[2].partition('<script id="data"')[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


def write_statistics(path, *rows):
    path.mkdir(exist_ok=True)
    lines = [json.dumps({"global_step": step, **row}) + "\n" for step, row in enumerate(rows, start=1)]
    (path / "stats.jsonl").write_text("".join(lines))
    return path


def test_last_and_best_metrics_are_in_the_head(tmp_path, report):
    rows = [{"cost": 3, "val_accuracy": 0.5}, {"cost": 1, "val_accuracy": 0.9}, {"cost": 2, "half": 7}]
    path = write_statistics(tmp_path / "run", *rows, {"cost": "NaN", "val_accuracy": 0.8, "half": 8})
    status, page, _ = report(path)
    text = text_of(page)
    assert status == 0
    assert "val_accuracy cost" in text  # of the evaluation first; it is unknown which value of half is best
    assert "0.8 best 0.9 at step 2 nan best 1 at step 2" in text
    assert page.index("best 0.9") < page.index('id="charts"') < page.index('id="below"')


def test_the_direction_of_a_saver_is_known_and_unknown_statistics_have_no_best(tmp_path, report):
    path = write_statistics(tmp_path / "run", {"half": 3, "cost ": 1}, {"half": 2, "cost ": 0})
    assert "half 2 best" not in text_of(report(path)[1])
    state = {"loop": {"global_step": 2}, "callbacks": {"MaxSaver('half')": {}}}
    write_checkpoint(path / "model-2", {"weight": np.zeros(1)}, state)
    assert "2 best 3 at step 1" in text_of(report(path)[1])


def test_statistics_without_known_directions_have_last_values(tmp_path, report):
    path = write_statistics(tmp_path / "run", {"half": 2.5, "QueueInput/queue_size": 50.0})
    text = text_of(report(path)[1])
    assert "state half This run has no record of its starts. 2.5 " in text
    assert "50" not in text.partition("Queues of the input")[0]


def test_runs_are_beside_each_other_with_the_settings_that_differ(tmp_path, capsys):
    start = {"event": "start", "format": 1, "time": 1, "epoch": 0, "step": 0, "cwd": "/", "max_epoch": 5}
    commands = [["python", "a.py", "--lr=0.1", "--fast", "x"], ["python", "a.py", "--lr", "0.2", "--slow"]]
    explanations = [
        "T on one device\ninput: A\ncallbacks, in order:\n  1. Both\n       puts x\n 10. One",
        "T on two\n  1. Both",
    ]
    for name, command, explanation in zip(("one", "two"), commands, explanations):
        path = write_statistics(tmp_path / name, {"cost": 1})
        (path / "run.jsonl").write_text(json.dumps({**start, "command": command, "host": name}) + "\n")
        (path / "explain.txt").write_text(explanation)
        (path / "environment.txt").write_text(f"numpy    2.0\ncpu cores    {len(name) + len(command)}\n")
    write_statistics(tmp_path / "<script>alert(1)", {"accuracy": 0.5})
    paths = [str(tmp_path / name) for name in ("one", "two", "<script>alert(1)")]
    assert main(["plot", *paths, "-o", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().err == ""
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>.*?</tr>", page)]
    settings = {row[0]: row[1:] for row in rows if len(row) == 4}
    assert settings["--lr"] == ["0.1", "0.2", ""]
    assert settings["--fast"] == ["x", "", ""] and settings["--slow"] == ["", "yes", ""]
    assert settings["command"] == ["python a.py", "python a.py", ""]
    assert settings["trainer"] == ["T on one device", "T on two", ""]
    assert settings["input"] == ["A", "", ""]
    assert settings["callback One"] == ["yes", "", ""] and settings["callback Both"] == ["yes", "yes", ""]
    assert "<h1>3 runs</h1>" in page and "No recorded setting differs" not in page
    assert main(["plot", *paths[:1] * 2, "-o", str(tmp_path / "page.html")]) == 0
    assert "No recorded setting differs" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_hyper_parameters_are_settings(straight_line, tmp_path):
    for name, rate in (("one", 0.5), ("two", 0.25)):
        hparams = {"rate": rate, "kind": f"adam {EVIL}", "warm": rate > 0.3}
        (tmp_path / name).mkdir()
        straight_line(tmp_path / name).run([Put()], monitors=[TFEventWriter(hparams=hparams), JSONWriter()])
    events = read_events(tmp_path / "one")
    assert events.hparams == {"rate": "0.5", "kind": f"adam {EVIL}", "warm": "True"}
    assert read_events(tmp_path / "two").hparams["warm"] == "False"
    assert list(events.images) == ["noise"]
    page = tmp_path / "page.html"
    assert main(["plot", str(tmp_path / "one"), str(tmp_path / "two"), "-o", str(page)]) == 0
    assert "rate 0.5 0.25 warm True False" in text_of(page.read_text())


def test_a_run_with_only_a_checkpoint_and_a_run_with_only_pictures(tmp_path, report):
    write_checkpoint(tmp_path / "a" / "model-2", {"weight": np.zeros(1)}, {"loop": {"global_step": 2}})
    status, page, notes = report(tmp_path / "a")
    assert (status, notes) == (0, "") and "This run has no record of its starts. To resume" in text_of(page)
    write_picture(tmp_path / "b", "samples", 1, np.zeros((2, 2, 1), np.uint8))
    status, page, notes = report(tmp_path / "b")
    assert (status, notes) == (0, "") and '"series":["samples"]' in page


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
