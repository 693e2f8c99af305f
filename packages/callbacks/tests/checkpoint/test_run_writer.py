"""Background writes: one at a time, of one step, with all failures reported."""

import contextlib
import os
import random
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MaxSaver, MinSaver, ModelSaver, PeriodicTrigger
from towerpack_callbacks.checkpoint import (
    all_checkpoints,
    checkpoint_directories,
    random_state,
    read_checkpoint,
    save_now,
    set_random_state,
)
from towerpack_callbacks.checkpoint.format import write_files

# Where the savers' thread does its work: tests hold it up, or let it fail.
WRITE_FILES = "towerpack_callbacks.checkpoint._run_writer.write_files"


class Hold:
    """Lets a write begin and end when a test wants it."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *arguments):
        self.begun.set()
        assert self.may_end.wait(60)
        self.real(*arguments)


@pytest.fixture
def hold(monkeypatch):
    """Holds up all writes of savers."""
    held = Hold()
    held.real = write_files
    monkeypatch.setattr(WRITE_FILES, held)
    return held


def test_steps_continue_during_a_write_with_the_values_of_its_step(line, hold):
    class Release(Callback):
        def _trigger_step(self):
            if self.global_step == 5:
                assert hold.begun.wait(60)
                assert not list(all_checkpoints(line.log_dir))
                hold.may_end.set()

    with line.graph.as_default():
        tf.get_variable("in_place", [1000], initializer=tf.zeros_initializer(), use_resource=False)
        for variable in tf.global_variables():
            if variable.op.name == "in_place":
                line.train_op = tf.group(line.train_op, variable.assign_add(np.ones(1000, np.float32)))
    line.run([ModelSaver(), Release()])
    for step in (3, 6):
        checkpoint = read_checkpoint(line.log_dir / f"model-{step}")
        assert checkpoint.variables["global_step"] == step
        assert checkpoint.state["loop"]["global_step"] == step
        np.testing.assert_array_equal(checkpoint.variables["in_place"], np.full(1000, step))


def thread_names():
    return [thread.name for thread in threading.enumerate()]


def test_the_end_waits(line, hold):
    class Release(Callback):
        def _after_train(self):
            assert [name for name in thread_names() if name.startswith("towerpack-checkpoint")]
            threading.Timer(0.05, hold.may_end.set).start()

    line.run([Release(), ModelSaver()], max_epoch=1)
    assert read_checkpoint(line.log_dir / "latest").variables["global_step"] == 3
    assert not [name for name in thread_names() if name.startswith("towerpack-checkpoint")]


def test_a_loop_about_to_end_saves_once_more(line):
    class End(Callback):
        def _trigger_step(self):
            if self.global_step == 5:
                assert save_now(callbacks)
                assert read_checkpoint(line.log_dir / "latest").variables["global_step"] == 5
                written = (line.log_dir / "model-5").stat().st_ino
                assert save_now(callbacks)
                assert (line.log_dir / "model-5").stat().st_ino == written

    callbacks = [PeriodicTrigger(ModelSaver(), every_k_steps=4), End()]
    assert line.run(callbacks) == 6
    assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-4", "model-5"]
    assert not save_now([End()])


def test_before_the_first_step_it_is_written_at_once(line):
    """Savers further down still clean the directory then."""

    class Look(Callback):
        def _before_train(self):
            assert read_checkpoint(line.log_dir).variables["global_step"] == 0

    line.run([PeriodicTrigger(ModelSaver(), every_k_epochs=1, before_train=True), Look(), ModelSaver()])


def test_an_unexpected_error_stops_the_training_with_its_own_type(line, monkeypatch):
    def write(*arguments):
        raise MemoryError("no room for the copy")

    monkeypatch.setattr(WRITE_FILES, write)
    with pytest.raises(MemoryError, match="no room for the copy"):
        line.run([ModelSaver(on_error="warn")])


def test_both_savers_at_one_step(line):
    class Accuracy(Callback):
        def _trigger(self):
            self.trainer.monitors.put_scalar("accuracy", float(self.global_step))

        def produces(self):
            return ["accuracy"]

    line.run([Accuracy(), ModelSaver(), MaxSaver("accuracy")])
    one, other = (read_checkpoint(line.log_dir / name) for name in ("latest", "max-accuracy"))
    assert one.state == other.state
    assert one.variables == other.variables


# ---- the random states it keeps


def test_random_numbers_continue():
    random.seed(3)
    np.random.seed(3)
    random.gauss(0, 1)
    np.random.normal()
    state = random_state()
    expected = [random.random(), random.gauss(0, 1), np.random.normal(), np.random.randint(1000)]
    random.seed(4)
    np.random.seed(4)
    set_random_state(state)
    assert [random.random(), random.gauss(0, 1), np.random.normal(), np.random.randint(1000)] == expected


def test_a_checkpoint_holds_where_they_are(line):
    class Draw(Callback):
        def _trigger(self):
            self.after = [random.random(), np.random.random()]
            self.drawn = [random.random(), np.random.random()]

    random.seed(1)
    draw = Draw()
    line.run([draw, ModelSaver()], max_epoch=1)
    expected = [random.random(), np.random.random()]
    set_random_state(read_checkpoint(line.log_dir).state["random"])
    assert [random.random(), np.random.random()] == expected
    assert expected != draw.drawn


@pytest.mark.timeout(180)
def test_the_next_write_does_not_wait_for_a_process_that_was_forked_during_one(line, monkeypatch):
    with contextlib.ExitStack() as forked:

        def write(path, *arguments):
            for entry in Path("/proc/self/fd").iterdir():
                with contextlib.suppress(OSError):
                    if entry.resolve() == path.parent.resolve():
                        # What a forked process has: another descriptor of the same open file.
                        forked.callback(os.close, os.dup(int(entry.name)))
                        break
            write_files(path, *arguments)

        monkeypatch.setattr(WRITE_FILES, write)
        line.run([ModelSaver()])
        assert [path.name for path in all_checkpoints(line.log_dir)] == ["model-3", "model-6"]


def test_a_loop_may_ask_where_savers_write(line, tmp_path):
    class Put(Callback):
        def produces(self):
            return ["cost"]

    savers = [Put(), ModelSaver(), PeriodicTrigger(MinSaver("cost", tmp_path / "best"), every_k_epochs=1)]
    line.run(savers, max_epoch=0)
    assert checkpoint_directories(savers) == {line.log_dir, tmp_path / "best"}
    assert checkpoint_directories([Callback()]) == set()
