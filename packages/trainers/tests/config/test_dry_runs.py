"""Dry runs execute all parts and leave no files; overfitting repeats the same few batches."""

import logging

import numpy as np
import pytest

from towerpack_callbacks import (
    Callback,
    InferenceRunner,
    JSONWriter,
    MaxSaver,
    ModelSaver,
    PeriodicTrigger,
    ScalarStats,
)
from towerpack_inputsource import QueueInput
from towerpack_trainers import ConfigError, SimpleTrainer, fast_dev_run, overfit_batches
from towerpack_trainers.testing import FailAt, FinalVariables, Recorder


class Note(Callback):
    """Counts its periodic work, and records the files present at that time."""

    def __init__(self):
        self.triggers = 0

    def _trigger(self):
        self.triggers += 1
        self.place = self.trainer.log_dir
        self.existed = self.place.is_dir()


class CountedFlow:
    """Counts the datapoints read from it, over all passes."""

    def __init__(self, datapoints):
        self.datapoints, self.read, self.seeds = datapoints, 0, []

    def __len__(self):
        return len(self.datapoints)

    def __iter__(self):
        for datapoint in self.datapoints:
            self.read += 1
            yield datapoint

    def seed(self, seed):
        self.seeds.append(seed)


def test_a_dry_run_does_the_work_of_every_callback_once(kit, configure):
    note, recorder, validation = Note(), Recorder(), CountedFlow(kit.line_data(9))
    callbacks = [
        PeriodicTrigger(note, every_k_epochs=100),
        PeriodicTrigger(InferenceRunner(validation, ScalarStats("cost")), every_k_epochs=50),
        ModelSaver(),
        MaxSaver("validation_cost"),
        recorder,
    ]
    config = configure(dataflow=kit.line_data(50), callbacks=callbacks, max_epoch=1000)
    SimpleTrainer(fast_dev_run(config, steps=3)).train()
    assert note.triggers == 1
    assert [call[0] for call in recorder.calls].count("trigger_step") == 3
    assert validation.read <= 4  # one may be read ahead


def test_a_dry_run_leaves_no_file_and_moves_no_earlier_run(kit, configure, tmp_path):
    def run(**changes):
        callbacks = [ModelSaver(), note]
        return configure(callbacks=callbacks, monitors=[JSONWriter()], resume="auto", **changes)

    note = Note()
    SimpleTrainer(run()).train()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    SimpleTrainer(fast_dev_run(run(max_epoch=9))).train()
    assert note.existed and not note.place.exists()
    assert note.place != tmp_path / "run"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_failed_dry_run_leaves_no_file(kit, configure, tmp_path):
    note = Note()
    failing = FailAt("_trigger_epoch", ZeroDivisionError())
    failing._trigger = failing._trigger_epoch
    with pytest.raises(ZeroDivisionError):
        SimpleTrainer(fast_dev_run(configure(callbacks=[note, failing]))).train()
    assert note.existed and not note.place.exists()
    assert not (tmp_path / "run").exists()


def test_a_dry_run_may_have_no_directory(configure, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    recorder, kept = Recorder(), FinalVariables()
    SimpleTrainer(fast_dev_run(configure(log_dir=None, callbacks=[recorder, kept]))).train()
    assert [call[0] for call in recorder.calls].count("trigger_step") == kept.values["global_step"] == 2
    assert list(tmp_path.iterdir()) == []


def test_steps_of_a_dry_run_fill_session_calls(configure):
    assert fast_dev_run(configure(steps_per_run=4)).steps_per_epoch == 4
    assert fast_dev_run(configure(steps_per_run=4), steps=5).steps_per_epoch == 8


@pytest.mark.parametrize("dry_run", [fast_dev_run, overfit_batches])
@pytest.mark.parametrize("number", [0, -1, 2.5, True, "3"])
def test_the_number_is_checked(configure, dry_run, number):
    with pytest.raises(ConfigError, match="expected a whole number of at least 1"):
        dry_run(configure(), number)


def test_evaluations_may_be_limited(kit, configure, caplog):
    validation = CountedFlow(kit.line_data(9))
    runner = InferenceRunner(validation, ScalarStats("cost"))
    SimpleTrainer(configure(callbacks=[runner], evaluation_batches=2, max_epoch=1)).train()
    assert validation.read <= 3


def test_overfitting_reads_the_first_batches_once_and_keeps_the_length_of_an_epoch(kit, configure):
    flow, recorder = CountedFlow(kit.line_data(6)), Recorder()
    SimpleTrainer(overfit_batches(configure(dataflow=flow, callbacks=[recorder], max_epoch=3), 2)).train()
    assert flow.read == 2
    assert flow.seeds == [1]
    assert recorder.calls[-1][3] == 18


def test_overfitting_learns_random_labels_by_heart(kit, configure):
    rng = np.random.default_rng(0)
    noise = [
        [rng.normal(size=(8, 4)).astype(np.float32), rng.integers(0, 2, 8).astype(np.int32)]
        for _ in range(40)
    ]
    runner = InferenceRunner(noise[:1], ScalarStats("accuracy", prefix=""))

    class Last(Callback):
        def _trigger_epoch(self):
            self.accuracy = self.trainer.monitors.get_latest("accuracy")

    last = Last()
    config = configure(model=kit.Net(), dataflow=noise, callbacks=[runner, last], max_epoch=10)
    SimpleTrainer(overfit_batches(config)).train()
    assert last.accuracy >= 0.875


class Reusing:
    """Yields its datapoints in one memory."""

    def __init__(self, datapoints):
        self.datapoints = datapoints

    def __len__(self):
        return len(self.datapoints)

    def __iter__(self):
        arrays = [np.empty_like(array) for array in self.datapoints[0]]
        for datapoint in self.datapoints:
            for array, value in zip(arrays, datapoint):
                array[:] = value
            yield arrays


def test_overfitting_keeps_batches_of_a_flow_that_reuses_its_memory(kit, configure):
    def weights(flow):
        kept = FinalVariables()
        SimpleTrainer(overfit_batches(configure(dataflow=flow, callbacks=[kept]), 2)).train()
        return kept.values

    kit.assert_same(weights(Reusing(kit.line_data(6))), weights(kit.line_data(6)))


def test_overfitting_needs_the_flow(configure, kit):
    with pytest.raises(ConfigError, match="Pass the flow itself as dataflow="):
        overfit_batches(configure(data=QueueInput(kit.line_data())))


def test_a_shorter_flow_is_used_completely(kit, configure, caplog):
    caplog.set_level(logging.INFO)
    flow = CountedFlow(kit.line_data(2))
    SimpleTrainer(overfit_batches(configure(dataflow=flow, max_epoch=2), 10)).train()
    assert flow.read == 2
