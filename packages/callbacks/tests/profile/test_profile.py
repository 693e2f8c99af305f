"""Traces of single steps, and profiles of several."""

import json
import logging

import pytest
import tensorflow.compat.v1 as tf
from tensorflow import profiler

from towerpack_callbacks import Callback, GraphProfiler, StepFetch, TensorBoardProfiler
from towerpack_callbacks.profile import chrome_trace


def test_a_trace_lists_the_ops(line):
    line.run([GraphProfiler(every="4 steps")])
    (path,) = line.log_dir.glob("chrome-trace-*.json")
    assert path.name == "chrome-trace-4.json"
    trace = json.loads(path.read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert any("weight" in event["args"]["op"] for event in spans)
    assert len(spans) > 5
    assert all(event["dur"] > 0 and event["ts"] > 0 for event in spans)
    assert any(event["name"] == "process_name" for event in trace["traceEvents"])


def node(name, start, duration, label=""):
    metadata = tf.RunMetadata()
    stats = metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add()
    stats.node_name, stats.all_start_micros, stats.op_end_rel_micros = name, start, duration
    stats.timeline_label = label
    return stats


def test_ops_that_run_together_lie_side_by_side():
    metadata = tf.RunMetadata()
    stats = metadata.step_stats.dev_stats.add(device="/gpu:0").node_stats
    stats.extend([node("b", 5, 10), node("a", 0, 10, "a = MatMul(x, y)"), node("c", 12, 0)])
    _, *spans = chrome_trace(metadata)["traceEvents"]
    assert [(span["args"]["op"], span["tid"], span["ts"], span["dur"]) for span in spans] == [
        ("a", 0, 0, 10),
        ("b", 1, 5, 10),
        ("c", 0, 12, 1),
    ]
    assert [span["name"] for span in spans] == ["MatMul", "b", "c"]


def test_only_the_traced_step_is_traced(line):
    seen = []

    class Watch(Callback):
        def step_fetches(self):
            trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            cost = self.trainer.get_tensors(["cost"])
            return [
                StepFetch(cost, lambda value: seen.append(type(value))),
                StepFetch(cost, seen.append, "3 steps", trace),
            ]

    line.run([Watch()], max_epoch=1)
    assert seen[:3] == [list, list, list]
    (cost,), metadata = seen[3]
    assert cost > 0 and metadata.step_stats.dev_stats and len(seen) == 4


@pytest.mark.slow
def test_a_profile_for_tensorboard(line, caplog):
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    line.run([TensorBoardProfiler(first_step=2, steps=3)])
    files = list(line.log_dir.glob("plugins/profile/*/*.xplane.pb"))
    assert len(files) == 1 and files[0].stat().st_size > 0
    assert "Profiled steps 2 to 4" in caplog.text


@pytest.mark.slow
def test_a_training_that_ends_early_ends_its_profile(line):
    line.run([TensorBoardProfiler(first_step=2, steps=100)])
    assert list(line.log_dir.glob("plugins/profile/*/*.xplane.pb"))
    with pytest.raises(tf.errors.UnavailableError):
        profiler.experimental.stop()


@pytest.mark.slow
def test_another_profiler_is_not_disturbed(line, tmp_path, caplog):
    profiler.experimental.start(str(tmp_path / "other"))
    try:
        assert line.run([TensorBoardProfiler(first_step=2, steps=1)]) == 6
    finally:
        profiler.experimental.stop()
    assert "another profiler is already running in this process" in caplog.text


@pytest.mark.parametrize("arguments", [{"first_step": 1}, {"steps": 0}])
def test_steps_to_profile(arguments):
    with pytest.raises(ValueError, match="expected a first step of at least 2"):
        TensorBoardProfiler(**arguments)


@pytest.mark.parametrize("make", [GraphProfiler, TensorBoardProfiler])
def test_files_need_a_directory(line, make):
    line.log_dir = None
    with pytest.raises(ValueError, match="has nowhere to write: give log_dir="):
        line.run([make()])
