"""Each run is one step: its fetches, and that it is counted exactly once."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every, HookToCallback, PeriodicTrigger, StepFetch
from towerpack_trainers import SimpleTrainer, Trainer


class Fetch(Callback):
    """Fetches tensors at a period, with the number of the step at that time."""

    def __init__(self, name, every):
        self.name, self.every, self.seen = name, every, []

    def step_fetches(self):
        return [StepFetch(self.trainer.get_tensors([self.name])[0], self.receive, self.every)]

    def receive(self, value):
        self.seen.append((self.global_step, value.tolist()))


class Count(Callback):
    """Compares the counter in the graph with the one outside, after each step."""

    def __init__(self):
        self.pairs = []

    def _trigger_step(self):
        step = self.trainer.sess.run(tf.train.get_global_step(self.graph))
        self.pairs.append((int(step), self.global_step))


class Hook(tf.train.SessionRunHook):
    """Fetches and feeds in each run."""

    def __init__(self, fetches=None, feeds=None, options=None):
        self.names, self.feeds, self.options = fetches, feeds or {}, options
        self.results = []

    def before_run(self, run_context):
        graph = run_context.session.graph
        feeds = {graph.get_tensor_by_name(name): value for name, value in self.feeds.items()}
        return tf.train.SessionRunArgs(self.names, feeds or None, self.options)

    def after_run(self, run_context, run_values):
        self.results.append(run_values)


EXTRAS = {
    "nothing": list,
    "every step": lambda: [Fetch("global_step", Every(steps=1))],
    "periods": lambda: [Fetch("global_step", Every(steps=2)), Fetch("cost", Every(epochs=1))],
    "hook": lambda: [HookToCallback(Hook("cost:0"))],
    "hook and periods": lambda: [HookToCallback(Hook()), Fetch("cost", Every(steps=3))],
    "trigger": lambda: [PeriodicTrigger(Fetch("cost", Every(steps=2)), every_k_steps=3)],
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_steps_are_counted_exactly(configure, extra):
    count = Count()
    SimpleTrainer(configure(callbacks=[*EXTRAS[extra](), count])).train()
    assert count.pairs == [(step, step) for step in range(1, 11)]


@pytest.mark.parametrize("with_hook", [False, True])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_ops_that_read_the_step_see_the_finished_steps(configure, every, with_hook):
    fetch = Fetch("global_step", Every(steps=every))
    hooks = [HookToCallback(Hook())] if with_hook else []
    SimpleTrainer(configure(callbacks=[fetch, *hooks], max_epoch=20)).train()
    due = range(every, 101, every)
    assert fetch.seen == [(step, step - 1) for step in due]


def test_hooks_fetch_feed_and_trace(configure):
    tracing = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    fetching, feeding, traced = (
        Hook({"e": "error:0"}),
        Hook(feeds={"cost:0": 7.0}),
        Hook("cost:0", None, tracing),
    )
    config = configure(callbacks=[HookToCallback(hook) for hook in (fetching, feeding, traced)], max_epoch=1)
    SimpleTrainer(config).train()
    assert [len(hook.results) for hook in (fetching, feeding, traced)] == [5, 5, 5]
    assert fetching.results[0].results["e"].shape == (4,)
    assert fetching.results[0].results["e"].any()
    assert [values.results for values in traced.results] == [7.0] * 5
    assert feeding.results[0].results == []
    assert traced.results[0].run_metadata.step_stats.dev_stats


def test_a_hook_may_request_a_stop(configure):
    trainer = SimpleTrainer(configure(callbacks=[HookToCallback(tf.train.StopAtStepHook(last_step=3))]))
    trainer.train()
    assert trainer.loop.global_step == 3


def test_a_hook_is_wrapped(configure):
    with pytest.raises(TypeError, match=r"Wrap a session hook: HookToCallback\(hook\)"):
        configure(callbacks=[tf.train.StopAtStepHook(last_step=3)])


def test_a_callable_is_made_once_for_each_set_of_fetches(configure, monkeypatch):
    made = []
    make_callable = tf.Session.make_callable

    def counted(self, fetches, *args, **kwargs):
        made.append(fetches)
        return make_callable(self, fetches, *args, **kwargs)

    monkeypatch.setattr(tf.Session, "make_callable", counted)
    fetches = [Fetch("cost", Every(steps=2)), Fetch("error", Every(steps=3)), Fetch("slope", Every(epochs=1))]
    SimpleTrainer(configure(callbacks=fetches, max_epoch=12)).train()
    # Due are: nothing (the default step); 2; 3; 2 and 3; and at an epoch's last step each of those with it.
    # The input's sample, at every 20th step, comes with two of them: the last with 2, and with 2 and 3.
    assert len([fetch for fetch in made if isinstance(fetch, list)]) == 7 + 2


class TwoRuns(Trainer):
    """Runs two ops in each step, in different structures."""

    def _setup(self):
        up, down = tf.get_variable("up", [], initializer=tf.zeros_initializer()), tf.get_variable("down", [])
        self.first = up.assign_add(1.0, read_value=False)
        self.second = {"down": down.assign(0.0), "up": up.read_value()}
        self.results = []

    def run_step(self):
        self.results.append(self.hooked_sess.run(self.first))
        self.results.append(self.hooked_sess.run(self.second))
        self.results.append(self.hooked_sess.run([self.second["up"]]))
        self.results.append(self.hooked_sess.run((self.second["up"],)))


def test_each_run_in_a_step_is_counted_and_keeps_its_structure(configure):
    config = configure(
        model=None, dataflow=None, steps_per_epoch=2, callbacks=[count := Count()], max_epoch=1
    )
    trainer = TwoRuns(config)
    trainer.train()
    assert trainer.results == [None, {"down": 0, "up": 1}, [1], (1,), None, {"down": 0, "up": 2}, [2], (2,)]
    assert [type(result) for result in trainer.results[2:4]] == [list, tuple]
    assert count.pairs == [(4, 4), (8, 8)]


def test_a_run_may_be_fed(configure):
    class Fed(Trainer):
        def _setup(self):
            self.number = tf.placeholder(tf.float32, [])
            self.double = self.number * 2
            self.results = []

        def run_step(self):
            self.results.append(self.hooked_sess.run(self.double, {self.number: len(self.results)}))

    trainer = Fed(configure(model=None, dataflow=None, steps_per_epoch=3, max_epoch=1))
    trainer.train()
    assert trainer.results == [0, 2, 4]
    assert trainer.loop.global_step == 3


def test_a_run_outside_the_training_is_refused(configure):
    with pytest.raises(RuntimeError, match=r"hooked_sess is for run_step\(\)"):
        SimpleTrainer(configure()).run_step()
