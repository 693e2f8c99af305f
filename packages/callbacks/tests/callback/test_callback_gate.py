"""Gates around another callback."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    EnableCallbackIf,
    Every,
    PeriodError,
    PeriodicCallback,
    StepFetch,
)


class Busy(Callback):
    """Records the step of each action; its fetches have an effect in the graph."""

    def __init__(self):
        self.calls = []

    def _setup_graph(self):
        with tf.variable_scope(tf.VariableScope(reuse=None)):
            self.runs = tf.get_local_variable("runs", shape=(), initializer=tf.zeros_initializer())
        self._count = tf.assign_add(self.runs, 1.0)

    def _before_train(self):
        self.calls.append("before_train")

    def _before_epoch(self):
        self.note("before_epoch")

    def _after_epoch(self):
        self.note("after_epoch")

    def _trigger_epoch(self):
        self.note("trigger_epoch")

    def _trigger_step(self):
        self.note("trigger_step")

    def _after_train(self):
        self.calls.append("after_train")
        self.total = self.trainer.sess.run(self.runs)

    def step_fetches(self):
        (cost,) = self.trainer.get_tensors(["cost"])
        return [StepFetch(cost, lambda _: self.note("cost")), StepFetch(self._count, every=Every(steps=2))]

    def note(self, what):
        self.calls.append((what, self.global_step))

    def steps(self, what):
        return [call[1] for call in self.calls if call[0] == what]


def test_a_gate_lets_nothing_through_while_it_is_closed(line):
    busy = Busy()
    line.run([EnableCallbackIf(busy, lambda gate: gate.epoch_num == 2)], steps_per_epoch=3, max_epoch=3)
    assert busy.calls[0] == "before_train" and busy.calls[-1] == "after_train"
    assert busy.steps("before_epoch") == [3]
    assert busy.steps("cost") == busy.steps("trigger_step") == [4, 5, 6]
    assert busy.steps("after_epoch") == busy.steps("trigger_epoch") == [6]
    assert busy.total == 2, "the op due at steps 4 and 6 ran at other times, too"


def test_an_open_gate_changes_nothing(line, straight_line, tmp_path):
    bare, gated = Busy(), Busy()
    line.run([bare])
    straight_line(tmp_path / "other").run([EnableCallbackIf(gated, lambda gate: True)])
    assert gated.calls == bare.calls


def test_a_gated_callback_that_chooses_its_fetches(line):
    class Chooses(Callback):
        def __init__(self):
            self.seen = []

        def _setup_graph(self):
            (self._twice,) = self.trainer.get_tensors(["twice"])

        def _before_run(self, context):
            return self._twice

        def _after_run(self, context, run_values):
            self.seen.append(run_values.results)

    chooses = Chooses()
    line.run([PeriodicCallback(chooses, every_k_steps=2)])
    assert chooses.seen == [2, 6, 10]


@pytest.mark.parametrize(
    ("period", "costs", "epochs"),
    [
        ({"every_k_steps": 2}, [2, 4, 6, 8], [6]),
        ({"every_k_epochs": 2}, [4, 5, 6, 7, 8, 9], [6, 9]),
    ],
)
def test_periodic_callback(line, period, costs, epochs):
    busy = Busy()
    line.run([PeriodicCallback(busy, **period)], steps_per_epoch=3, max_epoch=3)
    assert busy.steps("cost") == busy.steps("trigger_step") == costs
    assert busy.steps("trigger_epoch") == epochs


@pytest.mark.parametrize("arguments", [{}, {"every_k_steps": 2, "every_k_epochs": 2}, {"every_k_steps": 0}])
def test_periodic_callback_takes_one_period(arguments):
    with pytest.raises(PeriodError):
        PeriodicCallback(Busy(), **arguments)


def test_a_predicate_can_be_called():
    with pytest.raises(TypeError, match="takes a function of one argument as its predicate, received True"):
        EnableCallbackIf(Busy(), True)
