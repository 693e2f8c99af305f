"""Errors of a model with two networks name the variables and methods."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger, ScheduledHyperParamSetter
from towerpack_layers import FullyConnected, random_normal
from towerpack_trainers import ConfigError, ModelError, RestoreError
from towerpack_trainers.gan import (
    GANCosts,
    GANModelDesc,
    GANTrainer,
    SeparateGANTrainer,
    wasserstein_costs,
)


class Scopes(GANModelDesc):
    """One variable in each of some scopes."""

    def __init__(self, *scopes, **attributes):
        self.scopes = scopes
        vars(self).update(attributes)

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "real")]

    def build_graph(self, real):
        total = real
        for scope in self.scopes:
            with tf.variable_scope(scope):
                total += tf.get_variable("w", [], initializer=tf.ones_initializer())
        return GANCosts(total, total)

    def optimizer(self):
        return tf.train.AdamOptimizer(0.1)


@pytest.fixture
def train(configure):
    def begin(model, **changes):
        trainer = GANTrainer(configure(model=model, dataflow=[[1.0], [2.0]], **changes))
        trainer.train()
        return trainer

    return begin


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Scopes("gen", "discrim", "other"), "in neither of 'gen' and 'discrim'.*: other/w. Make them inside"),
        (Scopes("generator", "discrim"), "in neither of .*: generator/w"),
        (Scopes("gen"), "no trainable variable in 'discrim'; there are: gen/w"),
        (
            Scopes("a", "a/b", generator_scope="a", discriminator_scope="a/b"),
            "in both of 'a' and 'a/b'.*a/b/w",
        ),
    ],
)
def test_every_variable_has_one_network(train, model, message):
    with pytest.raises(ModelError, match=message):
        train(model)


def test_custom_scopes(train):
    train(Scopes("g", "d/inside", generator_scope="g", discriminator_scope="d"))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "received None"),
        ((1, 2), r"received \(1, 2\)"),
    ],
)
def test_costs_are_returned(train, returned, message):
    class Wrong(Scopes):
        def build_graph(self, real):
            super().build_graph(real)
            return returned

    with pytest.raises(ModelError, match=rf"Wrong.build_graph must return GANCosts.*{message}"):
        train(Wrong("gen", "discrim"))


@pytest.mark.parametrize("returned", [None, "Adam", ["Adam"], [None, None]])
def test_two_optimizers(train, returned):
    class Wrong(Scopes):
        def optimizers(self):
            return returned

    with pytest.raises(ConfigError, match=r"optimizer"):
        train(Wrong("gen", "discrim"))


def test_one_optimizer_for_both_keeps_two_states(train, kit):
    weights = kit.Weights()
    train(Scopes("gen", "discrim"), callbacks=[weights])
    powers = {name: value for name, value in weights.values.items() if "beta1_power" in name}
    # With a single state, each step would advance the power twice.
    assert list(powers.values()) == pytest.approx([0.9**5, 0.9**5])


def test_an_optimizer_of_the_configuration(train, kit):
    weights = kit.Weights()
    train(Scopes("gen", "discrim"), callbacks=[weights], optimizer=tf.train.GradientDescentOptimizer(0.5))
    assert weights.values["gen/w"] == weights.values["discrim/w"] == -1  # 4 steps of 0.5 from 1
    assert set(weights.values) == {"gen/w", "discrim/w", "global_step"}


class TwoRates(Scopes):
    def optimizers(self):
        return [tf.train.GradientDescentOptimizer(self.rate(name)) for name in ("generator", "discriminator")]

    def rate(self, network):
        start = tf.constant_initializer(0.5)
        return tf.get_variable(f"learning_rate/{network}", [], initializer=start, trainable=False)


def test_a_schedule_for_each_network(train, kit):
    weights = kit.Weights()
    setters = [
        ScheduledHyperParamSetter("learning_rate/generator", [(0, 0.5), (1, 0.25)]),
        ScheduledHyperParamSetter("learning_rate/discriminator", [(0, 1.0)]),
    ]
    train(TwoRates("gen", "discrim"), callbacks=[weights, *setters])
    assert weights.values["gen/w"] == 1 - 2 * 0.5 - 2 * 0.25
    assert weights.values["discrim/w"] == 1 - 4 * 1.0


@pytest.mark.parametrize(
    ("periods", "d_turns", "g_turns"), [({}, 12, 12), ({"g_period": 3}, 12, 4), ({"d_period": 5}, 3, 12)]
)
def test_separate_steps(configure, kit, periods, d_turns, g_turns):
    weights, recorder = kit.Weights(), kit.Recorder()
    config = configure(
        model=Scopes("gen", "discrim"),
        dataflow=[[1.0], [2.0]],
        callbacks=[weights, recorder],
        optimizer=tf.train.GradientDescentOptimizer(0.5),
        steps_per_epoch=6,
    )
    SeparateGANTrainer(config, **periods).train()
    assert weights.values["discrim/w"] == 1 - 0.5 * d_turns
    assert weights.values["gen/w"] == 1 - 0.5 * g_turns
    assert weights.values["global_step"] == d_turns + g_turns


def test_periods_of_separate_steps_are_not_passed_over(configure):
    class Keep(Callback):
        steps = []

        def _trigger(self):
            self.steps.append(self.global_step)

    config = configure(
        model=Scopes("gen", "discrim"),
        dataflow=[[1.0], [2.0]],
        callbacks=[PeriodicTrigger(Keep(), every_k_steps=5)],
        steps_per_epoch=15,
        max_epoch=1,
    )
    SeparateGANTrainer(config).train()
    assert Keep.steps == [6, 10, 16, 20, 26, 30]


def test_one_of_the_periods_is_1(configure):
    with pytest.raises(ConfigError, match="one of them must be 1"):
        SeparateGANTrainer(configure(model=Scopes("gen", "discrim")), d_period=2, g_period=2)


def test_another_size_of_the_noise_at_resume(configure, tmp_path):
    class Sized(GANModelDesc):
        def __init__(self, size):
            self.size = size

        def inputs(self):
            return [tf.TensorSpec([None, 2], tf.float32, "real")]

        def build_graph(self, real):
            with tf.variable_scope("gen"):
                fake = FullyConnected("fc", random_normal("noise", [tf.shape(real)[0], self.size]), 2)
            scores = []
            for examples in (real, fake):
                with tf.variable_scope("discrim", reuse=tf.AUTO_REUSE):
                    scores.append(FullyConnected("fc", examples, 1))
            return wasserstein_costs(*scores)

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.1)

    def train(size, **changes):
        config = configure(
            model=Sized(size),
            dataflow=[[[[1.0, 2.0]]]],
            callbacks=[ModelSaver()],
            log_dir=tmp_path / "run",
            **changes,
        )
        GANTrainer(config).train()

    train(3)
    with pytest.raises(RestoreError, match="gen/fc/W"):
        train(5, resume="auto", max_epoch=3)
