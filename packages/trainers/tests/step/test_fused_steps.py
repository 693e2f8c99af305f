"""Steps that nobody looks at run several in one session call; nothing else shows it."""

import os
import signal
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Every,
    HookToCallback,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    StepFetch,
)
from towerpack_inputsource import FeedInput, QueueInput, StagingInput
from towerpack_trainers import SimpleTrainer, SyncMultiGPUTrainer, Trainer
from towerpack_trainers.step import _fused_steps as _idle_steps
from towerpack_trainers.step._fused_steps import Comparison, IdleSteps
from towerpack_trainers.step._step_copies import StepCopies

STEPS = 40  # of an epoch


@pytest.fixture
def calls(monkeypatch):
    """Has idle steps tried at once, and kept to; the list of how many each call ran."""
    made = []

    def note_several(self, seconds, steps):
        self.pays = True

    run = IdleSteps._run

    def noted(self, limit):
        made.append(0)
        made[-1] = run(self, limit)
        return made[-1]

    monkeypatch.setattr(_idle_steps, "_WARM_UP", 1)
    monkeypatch.setattr(_idle_steps, "_COMPARED", 1)
    monkeypatch.setattr(_idle_steps, "_LONGEST_STEP", 100)
    monkeypatch.setattr(_idle_steps, "_FEWEST", 1)
    monkeypatch.setattr(Comparison, "note_several", note_several)
    monkeypatch.setattr(IdleSteps, "_run", noted)
    return made


class See(Callback):
    """Fetches the cost at a period, with the counters it came with."""

    def __init__(self, every):
        self.every, self.seen = every, []

    def step_fetches(self):
        [cost] = self.trainer.get_tensors(["cost"])
        return [StepFetch(cost, self._receive, self.every)]

    def _receive(self, cost):
        self.seen.append((self.epoch_num, self.local_step, self.global_step, float(cost)))


class Triggered(Callback):
    """Writes down when it was triggered."""

    def __init__(self):
        self.when = []

    def _trigger(self):
        self.when.append((self.epoch_num, self.local_step, self.global_step))


class Last(Callback):
    """Keeps the counters of the end."""

    def _after_train(self):
        in_graph = self.trainer.sess.run(tf.train.get_global_step(self.graph))
        self.counters = (self.local_step, self.global_step, int(in_graph))


class Fail(Callback):
    """Fails after a step, at a period."""

    def step_period(self):
        return Every(seconds=0.2)

    def _trigger_step(self):
        raise KeyError("mine")


def train(configure, kit, callbacks=(), trainer=SimpleTrainer, options=None, **changes):
    """Trains two epochs; returns the weights."""
    weights = kit.Weights()
    changes.setdefault("model", kit.Random())
    if "data" not in changes:
        changes.setdefault("dataflow", kit.net_flow())
    config = configure(callbacks=[weights, *callbacks], steps_per_epoch=STEPS, **changes)
    trainer(config, **(options or {})).train()
    return weights.values


def test_weights_are_the_same_to_the_last_bit(configure, kit, calls):
    one_by_one = train(configure, kit, steps_per_run=1)
    assert not calls
    kit.assert_same(one_by_one, train(configure, kit))
    assert max(calls) > 10


@pytest.mark.parametrize("trainer", ["staging", "towers"])
def test_other_steps_that_live_in_the_graph(configure, kit, calls, trainer):
    def weights(**changes):
        if trainer == "towers":
            options = {"devices": ["/cpu:0", "/cpu:1"]}
            return train(configure, kit, trainer=SyncMultiGPUTrainer, options=options, **changes)
        return train(configure, kit, data=StagingInput(QueueInput(kit.net_flow())), **changes)

    kit.assert_same(weights(steps_per_run=1), weights())
    assert max(calls) > 10


def test_callbacks_see_the_steps_they_want_and_no_other(configure, kit, calls):
    def seen(**changes):
        fetched = [See(Every(steps=7)), See(Every(epochs=1))]
        triggered, average = Triggered(), MovingAverageSummary()
        train(
            configure,
            kit,
            [*fetched, PeriodicTrigger(triggered, every_k_steps=12), average, ModelSaver()],
            **changes,
        )
        return [fetch.seen for fetch in fetched], triggered.when, average.state_dict()["sum"]["cost"]

    assert seen() == seen(steps_per_run=1)
    assert calls and max(calls) < 7


def test_a_resumed_training_is_the_whole_one(configure, kit, calls, tmp_path):
    whole = train(configure, kit, steps_per_run=1)
    run = tmp_path / "resumed"
    train(configure, kit, [PeriodicTrigger(ModelSaver(), every_k_steps=33)], max_epoch=1, log_dir=run)
    resumed = train(configure, kit, [ModelSaver()], log_dir=run, resume="auto")
    kit.assert_same(whole, resumed)
    assert calls


@pytest.mark.parametrize(
    "looks",
    [lambda kit: See(Every(steps=1)), lambda kit: HookToCallback(kit.Nothing())],
)
def test_who_looks_at_every_step_sees_every_step(configure, kit, calls, looks):
    train(configure, kit, [looks(kit)])
    assert not calls


@pytest.mark.parametrize(("every", "said"), [(1, False), (2, True)])
def test_explain_says_whether_it_may_be(configure, every, said):
    trainer = SimpleTrainer(configure(callbacks=[See(Every(steps=every))], steps_per_epoch=100))
    assert ("steps that no callback looks at: several in one session call" in trainer.explain()) is said


def test_a_trainer_with_steps_of_its_own_runs_all_of_them(configure, kit, calls):
    class Own(SimpleTrainer):
        ran = 0

        def run_step(self):
            self.ran += 1
            super().run_step()

    trainer = Own(configure(steps_per_epoch=STEPS))
    trainer.train()
    assert trainer.ran == 2 * STEPS and not calls


def test_a_step_that_is_fed_is_run_by_itself(configure, kit, calls):
    train(configure, kit, data=FeedInput(kit.net_flow()))
    assert not calls


@pytest.mark.parametrize(
    "make_step", [lambda: tf.random_uniform([]).op, lambda: tf.py_func(lambda: None, [], [])]
)
def test_copies_of_some_ops_would_not_do_the_same(make_step):
    with tf.Graph().as_default():
        assert IdleSteps.of(make_step(), 1000) is None
        step = tf.group(tf.Variable(1.0, use_resource=True).assign_add(1.0))
        assert IdleSteps.of(step, 1000) is not None
        assert IdleSteps.of(step, 90) is None  # over before it is known whether it pays


def test_an_error_amid_a_call_leaves_exact_counters(calls):
    last = Last()
    trainer = own_trainer(last)
    with trainer.graph.as_default():
        count = tf.Variable(0, use_resource=True)
        trainer.train_op = count.assign_add(tf.gather([1] * 33, count)).op
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 33 is not in \[0, 33\)"):
        trainer.train()
    assert last.counters == (32, 33, 33)
    assert calls


def test_data_that_was_declared_finite_is_used_up(configure, kit, calls):
    source = QueueInput(kit.line_data(batches=27), infinite=False)
    trainer = SimpleTrainer(configure(data=source, steps_per_epoch=STEPS))
    trainer.train()
    assert trainer.loop.global_step == 27 and trainer.loop.local_step == 26
    assert sum(calls) > 0


def own_trainer(*callbacks, steps_per_epoch=STEPS):
    """A training of a graph of one's own, which counts its steps."""
    trainer = Trainer(
        steps_per_epoch=steps_per_epoch,
        max_epoch=1,
        callbacks=list(callbacks),
        extra_callbacks=[],
        monitors=[],
        log_dir=None,
    )
    with trainer.graph.as_default():
        trainer.train_op = tf.Variable(0.0, use_resource=True).assign_add(1.0).op
    return trainer


@pytest.mark.timeout(60)
def test_a_callback_with_a_period_in_seconds_has_its_turn(calls):
    with pytest.raises(KeyError, match="mine"):
        own_trainer(Fail(), steps_per_epoch=10**12).train()
    assert max(calls) > 100


@pytest.mark.timeout(60)
def test_a_signal_stops_it(calls):
    def interrupt():
        while not calls:
            threading.Event().wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        own_trainer(steps_per_epoch=10**9).train()
    sender.join()


@pytest.mark.timeout(60)
def test_a_call_ends_in_time_however_slow_the_steps_are():
    with tf.Graph().as_default():
        # A step of some milliseconds.
        matrix = tf.Variable(tf.ones([1000, 1000]), use_resource=True)
        counter = tf.Variable(0, use_resource=True)
        product = tf.linalg.matmul(matrix, matrix)
        step = counter.assign_add(tf.cast(product[0, 0] / 1000, tf.int32)).op
        idle = IdleSteps(StepCopies([step]))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            idle.compile(sess)
            [done] = idle._call(np.int32(10**6))
            assert 1 <= done < 1000 and sess.run(counter) == done


def test_the_faster_way_is_kept():
    for several, pays in [(0.0009, True), (0.0011, False)]:
        comparison = Comparison()
        while not comparison.has_singles:
            comparison.note_single(0.001)
        assert comparison.pays is None
        comparison.note_several(1.0, 1)  # TensorFlow prepares its first call
        comparison.note_several(1.0, 1)
        while comparison.pays is None:
            comparison.note_several(10 * several, 10)
        assert comparison.pays is pays


def test_long_steps_are_not_compared():
    comparison = Comparison()
    while comparison.pays is None:
        comparison.note_single(0.1)
    assert comparison.pays is False
