"""The trace of a training: its contents, its lack of side effects, and its presence after any end."""

import json
import os

import numpy as np
import pytest

from towerpack_callbacks import Callback, LoopState, ModelSaver
from towerpack_inputsource import QueueInput
from towerpack_trainers import ConfigError, SimpleTrainer, TrainConfig
from towerpack_trainers.reports.trace import TrainingTrace, timed_calls, timed_session
from towerpack_trainers.testing import SmallFlow, SmallModel


class KeepsVariables(Callback):
    """Records the final variables."""

    def _after_train(self):
        self.values = self.trainer.sess.run(self.graph.get_collection("trainable_variables"))


def train(log_dir, trace, *callbacks, **arguments):
    last = KeepsVariables()
    config = TrainConfig(
        model=SmallModel(),
        data=QueueInput(SmallFlow()),
        callbacks=[*callbacks, last],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=40,
        max_epoch=1,
        seed=3,
        log_dir=log_dir,
        trace=trace,
        **arguments,
    )
    SimpleTrainer(config).train()
    return last.values


def read(path):
    """Returns the spans of a trace by category, and the names of its tracks."""
    whole = json.loads(path.read_text())
    assert whole["otherData"]["clock"] == "CLOCK_MONOTONIC"
    assert {event["ph"] for event in whole["traceEvents"]} <= {"M", "X", "i"}
    spans = [event for event in whole["traceEvents"] if event["ph"] == "X"]
    assert all(
        span["dur"] >= 0 and {"name", "cat", "ts", "pid", "tid", "args"} <= span.keys() for span in spans
    )
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in whole["traceEvents"] if e["ph"] == "M"}
    assert all((span["pid"], span["tid"]) in names for span in spans)
    return {
        kind: [span for span in spans if span["cat"] == kind] for kind in {s["cat"] for s in spans}
    }, names


def lies_in(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.01


@pytest.mark.slow
def test_a_trace_shows_the_training_and_changes_nothing(tmp_path):
    plain = train(tmp_path / "plain", None, ModelSaver())
    traced = train(tmp_path / "traced", tmp_path / "out" / "trace.json", ModelSaver())
    for one, other in zip(plain, traced):
        np.testing.assert_array_equal(one, other)
    assert os.listdir(tmp_path / "out") == ["trace.json"] and "TOWERPACK_TRACE" not in os.environ
    spans, names = read(tmp_path / "out" / "trace.json")
    assert set(spans) == {"step", "session", "callback", "checkpoint", "wait"}
    assert names[os.getpid(), 0] == "training"
    ran = [[int(word) for word in span["name"].split() if word.isdigit()] for span in spans["step"]]
    assert sorted(step for steps in ran for step in range(steps[0], steps[-1] + 1)) == list(range(1, 41))
    assert all(any(lies_in(call, step) for call in spans["session"]) for step in spans["step"])
    assert [span["name"] for span in spans["checkpoint"]] == ["write model-40"]
    assert "ModelSaver._after_triggers" in {span["name"] for span in spans["callback"]}
    by_thread = {(names[span["pid"], span["tid"]], span["name"]) for span in spans["wait"]}
    assert {
        ("towerpack-queue", "waits for the next datapoint"),
        ("towerpack-queue", "waits for room"),
    } <= by_thread
    assert ("MainThread", "wait for data") in by_thread


@pytest.mark.slow
def test_an_interrupted_training_writes_its_trace(tmp_path):
    class Interrupts(Callback):
        """Ends the training as Ctrl-C does."""

        def _trigger_step(self):
            if self.global_step == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(None, tmp_path / "trace.json", Interrupts())
    spans, _ = read(tmp_path / "trace.json")
    assert {span["name"] for span in spans["step"]} == {f"step {number}" for number in range(1, 8)}
    assert os.listdir(tmp_path) == ["trace.json"] and "TOWERPACK_TRACE" not in os.environ


def test_several_processes_write_a_file_each(tmp_path):
    trace = TrainingTrace(tmp_path / "trace.json", LoopState(1), rank=2)
    with trace:
        trace.add("step 1", "step", 1.0, 2.0)
    spans, names = read(tmp_path / "trace.rank2.json")
    assert [span["dur"] for span in spans["step"]] == [1e6] and names[os.getpid(), 0] == "training, rank 2"


@pytest.mark.slow
def test_the_number_of_spans_is_limited(tmp_path):
    trace = TrainingTrace(tmp_path / "trace.json", LoopState(1))
    with trace:
        for _ in range(100_002):
            trace.add("step", "step", 1.0, 2.0)
    text = (tmp_path / "trace.json").read_text()
    assert text.count('"ph": "X"') == 100_000
    assert "2 more spans of the training were omitted from here on" in text


def test_spans_of_a_killed_worker_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TOWERPACK_TRACE", "of another trace")
    with TrainingTrace(tmp_path / "trace.json", LoopState(1)):
        file = os.path.join(os.environ["TOWERPACK_TRACE"], "7.jsonl")
        name = {"name": "thread_name", "ph": "M", "ts": 0, "pid": 7, "tid": 7, "args": {"name": "worker"}}
        span = {
            "name": "produce",
            "cat": "produce",
            "ph": "X",
            "ts": 1,
            "dur": 2,
            "pid": 7,
            "tid": 7,
            "args": {},
        }
        with open(file, "w") as lines:
            lines.write(json.dumps(name) + "\n" + json.dumps(span) + "\n" + json.dumps(span)[:20])
    spans, names = read(tmp_path / "trace.json")
    assert spans == {"produce": [span]} and names[7, 7] == "worker"
    assert os.environ["TOWERPACK_TRACE"] == "of another trace"


def test_without_a_trace_calls_are_not_wrapped():
    loop, sess = LoopState(1), object()
    with TrainingTrace(None, loop):
        assert loop.record is None
        calls = (lambda: None), (lambda: 0)
        assert timed_calls(loop, *calls) == calls and timed_session(sess, loop) is sess


def test_errors(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(
            ConfigError, match=r"trace='.*/file/trace.json' cannot be written: .*Choose another file"
        ),
        TrainingTrace(tmp_path / "file" / "trace.json", LoopState(1)),
    ):
        pass
    with pytest.raises(ConfigError, match=r"trace.* the path of a file, or None for no trace"):
        TrainConfig(trace=5)
