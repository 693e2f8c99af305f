"""The checkpoints that savers write and keep in a training."""

import contextlib
import itertools
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CheckpointWriteError,
    MaxSaver,
    MinSaver,
    ModelSaver,
    PeriodicTrigger,
)
from towerpack_callbacks.checkpoint import (
    _run_writer,
    all_checkpoints,
    latest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)

VALUES = {"a/W": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.int64(7)}


class Accuracy(Callback):
    """Puts one value after another."""

    def __init__(self, values):
        self.values = iter(values)

    def _trigger(self):
        self.trainer.monitors.put_scalar("accuracy", next(self.values))

    def produces(self):
        return ["accuracy"]


def test_model_saver_keeps_the_newest(line):
    line.run([ModelSaver(keep_last=2)], max_epoch=4)
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-9", "model-12"]
    assert latest_checkpoint(line.log_dir).name == "model-12"
    state = read_checkpoint(line.log_dir).state
    assert state["loop"] == {"epoch_num": 4, "local_step": 2, "global_step": 12, "steps_per_epoch": 3}
    assert read_checkpoint(line.log_dir / "latest").variables["global_step"] == 12


def test_several_savers_with_one_directory_count_their_own(line):
    often, seldom = ModelSaver(keep_last=2), ModelSaver(keep_last=3)
    savers = [PeriodicTrigger(often, every_k_steps=1), PeriodicTrigger(seldom, every_k_steps=6)]
    line.run([*savers, Accuracy(range(9)), MaxSaver("accuracy")], max_epoch=8)
    assert [path.name for path in all_checkpoints(line.log_dir)] == [f"model-{n}" for n in (12, 18, 23, 24)]
    assert latest_checkpoint(line.log_dir).name == "model-24"
    states = read_checkpoint(line.log_dir).state["callbacks"]
    assert states["PeriodicTrigger(ModelSaver)"] == {"steps": [23, 24]}
    assert states["PeriodicTrigger(ModelSaver)#2"] == {"steps": [12, 18, 24]}
    for path in all_checkpoints(line.log_dir):
        read_checkpoint(path)


def test_of_two_checkpoints_of_one_step_the_later_one_remains(line, monkeypatch):
    alone_in, calls, later_is_written = _run_writer._alone_in, itertools.count(), threading.Event()

    @contextlib.contextmanager
    def with_a_slow_first_one(directory):
        first = next(calls) == 0
        if first:
            later_is_written.wait(0.2)
        with alone_in(directory):
            yield
        if not first:
            later_is_written.set()

    savers = [
        PeriodicTrigger(ModelSaver(), every_k_epochs=2),
        PeriodicTrigger(ModelSaver(), every_k_epochs=2),
    ]
    monkeypatch.setattr(_run_writer, "_alone_in", with_a_slow_first_one)
    line.run(savers, max_epoch=2)
    states = read_checkpoint(line.log_dir).state["callbacks"]
    assert states["PeriodicTrigger(ModelSaver)"] == states["PeriodicTrigger(ModelSaver)#2"] == {"steps": [6]}


def test_several_savers_continue_with_their_checkpoints(straight_line, tmp_path):
    for step in range(1, 8):
        write_checkpoint(tmp_path / f"model-{step}", VALUES, {})
    one, other = ModelSaver(keep_last=1), ModelSaver(keep_last=2)

    class Resume(Callback):
        def _before_train(self):
            one.load_state_dict({"steps": [1, 2]})
            other.load_state_dict({"steps": [1]})

    line = straight_line(tmp_path)
    line.run([Resume(), one, PeriodicTrigger(other, every_k_epochs=2)], max_epoch=3)
    assert [path.name for path in all_checkpoints(tmp_path)] == ["model-1", "model-6", "model-9"]


@pytest.mark.parametrize("saver", [ModelSaver, lambda: MaxSaver("accuracy")])
def test_savers_that_write_the_same_at_once(line, saver):
    line.run([Accuracy(range(20)), *(saver() for _ in range(4))], max_epoch=6, steps_per_epoch=1)
    assert len(list(line.log_dir.glob("m*-6"))) == 1
    assert not list(line.log_dir.glob(".writing-*"))


def test_steps_that_a_resumed_run_has_not_reached_do_not_count(line):
    for step in (9, 12):
        write_checkpoint(line.log_dir / f"model-{step}", VALUES, {})
    line.run([ModelSaver(keep_last=1)], max_epoch=2)
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-6", "model-9", "model-12"]
    assert latest_checkpoint(line.log_dir).name == "model-6"


def test_a_state_that_is_not_json_is_named(line):
    class Wrong(Callback):
        def state_dict(self):
            return {"history": [1.0, np.ones(2)]}

    message = r"state\['callbacks'\]\['Wrong'\]\['history'\]\[1\] is array.* of type ndarray, which JSON"
    with pytest.raises(CheckpointWriteError, match=message):
        line.run([ModelSaver(), Wrong()])
    assert not list(line.log_dir.iterdir())


def test_a_checkpoint_of_the_beginning(line):
    line.run([PeriodicTrigger(ModelSaver(), before_train=True)])
    assert read_checkpoint(line.log_dir).variables["global_step"] == 0


def test_a_checkpoint_holds_states_after_all_triggers(line):
    line.run([ModelSaver(), Accuracy([0.5, 0.7]), MaxSaver("accuracy")])
    states = read_checkpoint(line.log_dir).state["callbacks"]
    assert states["MaxSaver('accuracy')"] == {"best": 0.7}


def test_leftovers_of_a_killed_run_are_removed(line):
    (line.log_dir / ".writing-model-3-x").mkdir()
    line.run([ModelSaver()])
    assert not list(line.log_dir.glob(".writing-*"))


@pytest.mark.parametrize(
    ("saver", "values", "step"),
    [
        (MaxSaver, [0.5, 0.9, 0.7], 6),
        (MaxSaver, [float("nan"), 0.1, 0.1], 6),
        (MinSaver, [0.5, 0.9, 0.2], 9),
        (MinSaver, [0.5, 0.5, 0.5], 3),
    ],
)
def test_best_savers(line, saver, values, step):
    line.run([Accuracy(values), saver("accuracy")], max_epoch=3)
    kind = "max" if saver is MaxSaver else "min"
    assert read_checkpoint(line.log_dir / f"{kind}-accuracy").variables["global_step"] == step
    # The best alone is kept: the link and what it points to.
    assert len(list(line.log_dir.glob(f"{kind}-*"))) == 2


def test_best_of_an_earlier_run_is_forgotten(straight_line, tmp_path):
    saver = MaxSaver("accuracy")
    for name, values in (("first", [0.9]), ("second", [0.5])):
        straight_line(tmp_path / name).run([Accuracy(values), saver], max_epoch=1)
    second = read_checkpoint(tmp_path / "second" / "max-accuracy")
    assert second.state["callbacks"]["MaxSaver('accuracy')"] == {"best": 0.5}


def test_best_is_remembered(line):
    saver = MaxSaver("accuracy")

    class Resume(Callback):
        def _before_train(self):
            saver.load_state_dict({"best": 0.9})

    line.run([Resume(), Accuracy([0.8, 0.95, 0.93]), saver], max_epoch=3)
    assert [path.name for path in line.log_dir.glob("max-accuracy-*")] == ["max-accuracy-6"]
    assert saver.state_dict() == {"best": 0.95}


@pytest.mark.parametrize("kind", ["float8_e5m2", "float8_e4m3fn", "int4", "uint4", "bfloat16", "half"])
def test_variables_of_small_types_are_saved(line, kind):
    numbers = np.array([1, 2, 3]).astype(tf.as_dtype(kind).as_numpy_dtype)
    with line.graph.as_default():
        tf.get_variable("small", initializer=numbers, trainable=False)
    line.run([ModelSaver()], max_epoch=1)
    saved = read_checkpoint(line.log_dir).variables["small"]
    assert saved.dtype == numbers.dtype
    np.testing.assert_array_equal(saved.astype(float), [1, 2, 3])


def test_savers_need_a_place(line):
    line.log_dir = None
    with pytest.raises(ValueError, match="ModelSaver has nowhere to write: give log_dir="):
        line.run([ModelSaver()])


def test_two_statistics_with_one_name_of_files_are_refused(line, tmp_path):
    with pytest.raises(ValueError, match=r"MaxSaver\('a b'\) and MaxSaver\('a-b'\) both write max-a-b in"):
        line.run([MaxSaver("a b"), MaxSaver("a-b")])


def test_two_statistics_in_separate_directories(line, tmp_path):
    line.run([Put("a b"), Put("a-b"), MaxSaver("a b"), MaxSaver("a-b", tmp_path / "other"), MinSaver("a-b")])
    assert (line.log_dir / "max-a-b").exists() and (tmp_path / "other" / "max-a-b").exists()
    assert (line.log_dir / "min-a-b").exists()


class Put(Callback):
    """Puts a statistic at each epoch."""

    def __init__(self, name):
        self.name = name

    def produces(self):
        return [self.name]

    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar(self.name, self.epoch_num)
