"""Averages of weights: their values, their place in checkpoints, and evaluation with them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    Callback,
    CallbackFactory,
    InferenceRunner,
    ModelSaver,
    PeriodicTrigger,
    ScalarStats,
    ScopeError,
    averaged_variables,
)
from towerpack_callbacks.checkpoint import assign_variables, load_variables
from towerpack_callbacks.loop import PlainLoop

NAME = "weight/ExponentialMovingAverage"


def expected(decay, steps):
    """The average after each step; the weight's error falls by 0.8 in each."""
    average, averages = 0.0, []
    for n in range(steps):
        d = min(decay, (1 + n) / (10 + n))
        average = d * average + (1 - d) * (1 - 0.8 ** (n + 1))
        averages.append(average)
    return averages


class Weights(Callback):
    """Keeps weight and average at each trigger, and at each step."""

    def __init__(self):
        self.seen, self.steps = [], []

    def _setup_graph(self):
        self._tensors = self.trainer.get_tensors(["weight", NAME])

    def _trigger_step(self):
        self.steps.append(self.trainer.sess.run(self._tensors))

    def _trigger(self):
        self.seen.append(self.trainer.sess.run(self._tensors))


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_averages(line, decay):
    weights = Weights()
    line.run([EMA(decay), weights])
    np.testing.assert_allclose([average for _, average in weights.steps], expected(decay, 6), rtol=1e-5)


def test_averages_of_some_steps(line):
    weights = Weights()
    line.run([EMA(0.0, every="3 steps"), weights])
    averages = [average for _, average in weights.steps]
    assert averages[:2] == [0, 0] and averages[2] == averages[3] == weights.steps[2][0]


def test_evaluation_sees_the_averages_and_training_does_not(line):
    ema, inside, outside = EMA(0.9), Weights(), Weights()
    line.run([ema, ema.applied_to(inside), outside])
    assert inside.seen == [pair[::-1] for pair in outside.seen]
    np.testing.assert_allclose([w for w, _ in outside.steps], 1 - 0.8 ** np.arange(1, 7), rtol=1e-5)


def test_at_another_period(line):
    ema, inside = EMA(0.9), Weights()
    line.run([ema, PeriodicTrigger(ema.applied_to(inside), every_k_steps=4)])
    assert len(inside.seen) == 1 and inside.seen[0] == inside.steps[3][::-1]


def test_after_an_error_the_weights_are_back(line):
    class Fails(Weights):
        def _trigger(self):
            with pytest.raises(OSError, match="the disk is gone"), ema.applied():
                raise OSError("the disk is gone")
            super()._trigger()

    ema, fails = EMA(0.9), Fails()
    line.run([ema, fails], max_epoch=1)
    np.testing.assert_allclose(fails.seen[0][0], 1 - 0.8**3, rtol=1e-5)


def test_it_is_not_applied_twice(line):
    class Inner(Callback):
        def _trigger(self):
            with ema.applied():
                raise AssertionError("applied twice")

    ema = EMA(0.9)
    with pytest.raises(RuntimeError, match="already active"):
        line.run([ema, ema.applied_to(Inner())])


class Restore(Callback):
    """Puts saved values in place before the training, as a trainer does."""

    def __init__(self, values):
        self.values = values

    def _before_train(self):
        assign_variables(self.trainer.sess, self.values)


def test_a_resumed_run_continues_the_averages(line, straight_line, tmp_path):
    whole = Weights()
    line.run([EMA(0.9), whole])
    first = straight_line(tmp_path / "first")
    first.run([EMA(0.9), ModelSaver()], max_epoch=1)
    saved = load_variables(tmp_path / "first" / "model-3")
    assert {NAME, "EMA/updates"} <= saved.keys()
    rest = Weights()
    saved.pop("global_step")
    straight_line(tmp_path / "rest").run([Restore(saved), EMA(0.9), rest], max_epoch=1)
    np.testing.assert_array_equal(rest.steps, whole.steps[3:])


def test_restored_weights_are_where_averages_start(line):
    weights = Weights()
    line.run([Restore({"weight": np.float32(5.0)}), EMA(0.0001), weights], steps_per_epoch=1, max_epoch=1)
    weight, average = weights.steps[0]
    assert average == pytest.approx(weight, abs=1e-3)
    other = Weights()
    line2 = type(line)(line.log_dir)
    line2.run([Restore({"weight": np.float32(5.0)}), EMA(0.999), other], steps_per_epoch=1, max_epoch=1)
    # After one update the decay is 1/10: a tenth of 5, nine tenths of 4.2.
    assert other.steps[0][1] == pytest.approx(0.1 * 5 + 0.9 * 4.2)


def test_export():
    saved = {"W": np.zeros(2), f"W{NAME[6:]}": np.ones(2), "EMA/updates": 7, "b/Momentum": 3}
    exported = averaged_variables(saved)
    assert exported.keys() == {"W", "b/Momentum"}
    np.testing.assert_array_equal(exported["W"], [1, 1])


def test_export_of_a_run_without_averages():
    with pytest.raises(ValueError, match=r"no name ends with .*not saved with EMA\(\)"):
        averaged_variables({"W": np.zeros(2)})


def test_integers_are_not_averaged(line):
    with line.graph.as_default():
        tf.get_variable("count", [], tf.int32, initializer=tf.zeros_initializer())
    line.run([EMA()])
    names = {v.op.name for v in line.graph.get_collection("variables")}
    assert names == {"count", "global_step", "weight", NAME, "EMA/updates"}


@pytest.mark.parametrize("decay", [-0.1, 1, 1.5, float("nan")])
def test_a_decay_is_a_part(decay):
    with pytest.raises(ValueError, match="0 <= decay < 1"):
        EMA(decay)


def test_nothing_to_average(line):
    with pytest.raises(ScopeError, match="has no floating-point variable"):
        line.run([EMA(collection="nothing here")])


def grow(callback):
    """Two networks of one weight each, which grow by 1 with each step."""
    with tf.name_scope(None):
        for scope in ("gen", "gen/deep", "discrim", "generous"):
            with tf.variable_scope(scope):
                weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
                tf.identity(weight, "seen")
        callback.grow = tf.group(
            *[tf.assign_add(v, 1.0) for v in tf.trainable_variables() if v.op.name != "weight"]
        )


@pytest.fixture
def networks():
    """Makes the networks, and has them grow."""
    return CallbackFactory(setup_graph=grow)


class Grow(Callback):
    """Runs the growth after each step, before the averages are updated."""

    def __init__(self, networks):
        self._networks = networks

    def _trigger_step(self):
        self.trainer.sess.run(self._networks.grow)


def evaluated(loop, names):
    return [loop.monitors.get_latest(f"validation_{name}") for name in names]


def test_an_evaluation_sees_the_averages_of_one_scope_alone(networks):
    ema, names = EMA(0.0, scope="gen"), ["gen/seen", "gen/deep/seen", "discrim/seen", "generous/seen"]
    runner = InferenceRunner(range(2), ScalarStats(names))
    # The averages of decay 0 are the weights of the step before: they are updated first.
    loop = PlainLoop([networks, ema, Grow(networks), ema.applied_to(runner)], 3, 2, None)
    loop.train()
    assert evaluated(loop, names) == [5, 5, 6, 6]
    assert str(ema.applied_to(runner)).startswith("EMA(scope='gen').applied_to(")


def test_networks_have_separate_averages(networks, tmp_path):
    emas = [EMA(0.0, scope="gen"), EMA(0.5, "2 steps", scope="discrim/"), EMA(0.9)]
    with pytest.raises(
        ValueError, match=r"EMA: gen/w, gen/deep/w, discrim/w already have averages\. Use one"
    ):
        PlainLoop([networks, *emas], 3, 1, tmp_path)
    loop = PlainLoop([networks, *emas[:2], Grow(networks), ModelSaver()], 3, 1, tmp_path)
    loop.train()
    saved = load_variables(tmp_path)
    assert {name for name in saved if name.startswith("EMA/")} == {"EMA/gen/updates", "EMA/discrim/updates"}
    exported = averaged_variables(saved)
    assert not any("EMA" in name or "Average" in name for name in exported)
    assert (exported["gen/w"], exported["gen/deep/w"], exported["generous/w"]) == (2, 2, 3)
    assert saved["EMA/discrim/updates"] == 1 and exported["discrim/w"] != 3


def test_a_scope_without_variables(networks):
    with pytest.raises(
        ScopeError, match=r"in the scope 'generator'\. Scopes .*: no scope \(1\), discrim \(1\), gen \(1\)"
    ):
        PlainLoop([networks, EMA(scope="generator")], 3, 2, None)
