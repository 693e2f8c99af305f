"""Files that a run appends to, as crashes leave them, end no later run and no reader."""

import json

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CSVWriter,
    JSONWriter,
    LogFile,
    ModelSaver,
    RunRecord,
    TFEventWriter,
    as_session_hooks,
)
from towerpack_callbacks.__main__ import main
from towerpack_callbacks.plot import read_runs

STEPS = 2
FILES = ["stats.jsonl", "stats.csv", "log.log", "run.jsonl", "events"]


class Put(Callback):
    """Puts one statistic at the end of each epoch."""

    def produces(self):
        return ["cost"]

    def _trigger(self):
        self.trainer.monitors.put_scalar("cost", 1 / self.global_step)


def train(line, epochs, resume=None):
    monitors = [JSONWriter(), CSVWriter(), LogFile(), RunRecord(), TFEventWriter()]
    with line.graph.as_default():
        hooks = as_session_hooks(
            [Put(), ModelSaver()],
            steps_per_epoch=STEPS,
            max_epoch=epochs,
            log_dir=line.log_dir,
            monitors=monitors,
            resume=resume,
        )
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(line.train_op)


def torn(path):
    path.write_bytes(path.read_bytes() + b'{"epoch_num": 1, "glob')


def padded(path):
    path.write_bytes(path.read_bytes() + bytes(5000))


def empty(path):
    path.write_bytes(b"")


def directory(path):
    path.unlink()
    path.mkdir()
    (path / "mine").touch()


def no_text(path):
    path.write_bytes(path.read_bytes() + b"1,1,\xff\xfe\x80\n")


def odd_numbers(path):
    path.write_bytes(path.read_bytes() + b'{"global_step": Infinity}\n' + b"[" * 20_000 + b"\n")


DAMAGES = [torn, padded, empty, directory, no_text, odd_numbers]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("file", FILES)
def test_later_runs_and_readers_continue(straight_line, tmp_path, caplog, file, damage):
    log_dir = tmp_path / "run"
    log_dir.mkdir()
    train(straight_line(log_dir), 1)
    [path] = log_dir.glob("events.*") if file == "events" else [log_dir / file]
    damage(path)
    assert main(["plot", str(log_dir), "-o", str(tmp_path / "report.html")]) == 0
    caplog.clear()
    train(straight_line(log_dir), 2, "auto")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([text for text in warned if str(path) in text]) == (
        damage in (torn, padded, directory) and file != "events"
    ), warned
    [run] = read_runs([log_dir])
    steps = run.curves["cost"].steps.tolist()
    assert steps == ([4] if file == "stats.jsonl" and damage in (empty, directory) else [2, 4])
    assert not [note for note in run.notes if "stats.jsonl" in note]
    rows = (log_dir / "stats.csv").read_text().splitlines()
    assert rows[-1].startswith("2,4,")
    assert len(rows) == (2 if file == "stats.csv" and damage in (empty, directory) else 3)
    last = json.loads((log_dir / "run.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["step"]) == ("end", 4)
    assert (log_dir / "log.log").read_text(errors="replace").endswith("ends at step 4\n")
    assert not (damage is directory and file != "events") or (log_dir / f"{file}.1" / "mine").is_file()
