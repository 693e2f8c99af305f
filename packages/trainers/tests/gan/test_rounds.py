"""A round makes the documented steps of each network, with the documented batches, weights and noise."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CallbackFactory,
    ClipWeights,
    Every,
    HookToCallback,
    ModelSaver,
    NonFiniteError,
    RunUpdateOps,
    StepFetch,
    TerminateOnNaN,
)
from towerpack_inputsource import FeedInput, QueueInput, StagingInput
from towerpack_layers import BatchNorm, random_normal
from towerpack_trainers import (
    ConfigError,
    ModelError,
    SimpleTrainer,
    SyncMultiGPUTrainerReplicated,
    TrainerStateError,
)
from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer, MultiGPUGANTrainer

ROUNDS = [(1, 1), (3, 1), (1, 2), (2, 3)]
CPUS = ["/cpu:0", "/cpu:1"]


def weights_of(kit, config, trainer=GANTrainer, **options):
    """Trains, and returns the variables at the end."""
    weights = kit.Weights()
    trainer(config(weights), **options).train()
    return weights.values


@pytest.mark.parametrize(("d_steps", "g_steps"), ROUNDS)
def test_a_round_by_hand(kit, gan, configure, d_steps, g_steps):
    flow = gan.parabola_data()

    def config(weights):
        return configure(
            model=gan.Parabola(), dataflow=flow, callbacks=[weights], steps_per_epoch=5, max_epoch=2
        )

    found = weights_of(kit, config, d_steps=d_steps, g_steps=g_steps)
    expected = gan.play(itertools.cycle(gan.parabola_data()), 10, d_steps, g_steps)
    names = ("gen/w", "discrim/a", "discrim/b")
    np.testing.assert_allclose([found[name] for name in names], expected, rtol=1e-12)
    assert found["global_step"] == 10


@pytest.mark.parametrize(("d_steps", "g_steps"), ROUNDS)
def test_a_critic_is_clipped_after_each_of_its_steps(kit, gan, configure, d_steps, g_steps):
    def config(weights):
        callbacks = [ClipWeights(0.25, scope="discrim"), weights]
        flow = gan.parabola_data()
        return configure(
            model=gan.Parabola(), dataflow=flow, callbacks=callbacks, steps_per_epoch=10, max_epoch=1
        )

    found = weights_of(kit, config, d_steps=d_steps, g_steps=g_steps)
    expected = gan.play(itertools.cycle(gan.parabola_data()), 10, d_steps, g_steps, limit=0.25)
    names = ("gen/w", "discrim/a", "discrim/b")
    np.testing.assert_allclose([found[name] for name in names], expected, rtol=1e-12)
    assert 0.25 in np.abs(expected[1:])


def test_replicas_are_clipped_equally(configure):
    seen = []

    def look(callback):
        variables = [
            v for key in ("variables", "local_variables") for v in callback.graph.get_collection(key)
        ]
        named = {v.op.name: v for v in variables if v.op.name.endswith("slope")}
        seen.append(callback.trainer.sess.run(named))

    config = configure(callbacks=[ClipWeights(0.5), CallbackFactory(before_train=look, trigger=look)])
    SyncMultiGPUTrainerReplicated(config, CPUS).train()
    for values in seen:
        assert values["slope"] == values["tower1/slope"]
    assert seen[-1]["slope"] == 0.5


@pytest.mark.parametrize("every", [None, Every(steps=2)])
def test_staged_batches(kit, gan, configure, every):
    def config(weights):
        source = StagingInput(QueueInput(gan.parabola_data()))
        see = [] if every is None else [See(every)]
        return configure(
            model=gan.Parabola(),
            dataflow=None,
            data=source,
            callbacks=[weights, *see],
            steps_per_epoch=10,
            max_epoch=1,
        )

    found = weights_of(kit, config, d_steps=2, g_steps=2)
    expected = gan.play(itertools.cycle(gan.parabola_data()), 10, 2, 2)
    np.testing.assert_allclose([found[name] for name in ("gen/w", "discrim/a", "discrim/b")], expected)


class See(Callback):
    """Fetches the discriminator's cost at a period."""

    def __init__(self, every):
        self.every, self.seen = every, []

    def step_fetches(self):
        [cost] = self.trainer.get_tensors(["discriminator_cost"])
        return [StepFetch(cost, lambda value: self.seen.append(float(value)), self.every)]


@pytest.mark.slow
@pytest.mark.parametrize(("d_steps", "g_steps"), [(1, 1), pytest.param(2, 3, marks=pytest.mark.long)])
def test_callbacks_see_the_last_step_of_the_discriminator_and_change_nothing(
    kit, gan, configure, d_steps, g_steps
):
    def train(*callbacks):
        def config(weights):
            return configure(
                model=gan.Digits(),
                dataflow=gan.digits_data(),
                callbacks=[weights, RunUpdateOps(), *callbacks],
                steps_per_epoch=6,
            )

        return weights_of(kit, config, d_steps=d_steps, g_steps=g_steps)

    often, seldom, hook = See(Every(steps=1)), See(Every(steps=3)), HookToCallback(kit.Nothing())
    alone = train()
    kit.assert_same(train(often), alone)
    kit.assert_same(train(seldom, hook), alone)
    assert len(often.seen) == 12 and seldom.seen == often.seen[2::3]


class Noisy(GANModelDesc):
    """A model that only draws noise, and records every drawn number."""

    def __init__(self, draw):
        self.draw, self.drawn = draw, []

    def inputs(self):
        return [tf.TensorSpec([], tf.float64, "real")]

    def keep(self, number):
        self.drawn.append(float(number))
        return number

    def build_graph(self, real):
        z = tf.numpy_function(self.keep, [self.draw()], tf.float64)
        costs = []
        for scope in ("gen", "discrim"):
            with tf.variable_scope(scope):
                weight = tf.get_variable("w", [], tf.float64, tf.zeros_initializer())
            costs.append(weight * (tf.ensure_shape(z, []) + real))
        return GANCosts(*costs)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(1.0)


DRAWS = {
    "resumable": lambda: random_normal("noise", [], dtype=tf.float64),
    "stateful": lambda: tf.random_normal([], dtype=tf.float64),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("d_steps", "g_steps"), ROUNDS)
def test_every_part_of_a_round_draws_other_noise(configure, draw, d_steps, g_steps):
    model = Noisy(DRAWS[draw])
    data = [[np.float64(0)]] * 4
    # At steps with a fetch, the session runs other copies of the ops.
    config = configure(model=model, dataflow=data, steps_per_epoch=4, callbacks=[See(Every(steps=3))])
    GANTrainer(config, d_steps, g_steps).train()
    parts = 1 if d_steps == g_steps == 1 else d_steps + g_steps
    assert len(model.drawn) == len(set(model.drawn)) == 8 * parts


class Statistics(GANModelDesc):
    """Batch normalisation of constants, so that the averages show the number of their updates."""

    def inputs(self):
        return [tf.TensorSpec([4, 1], tf.float32, "real")]

    def build_graph(self, real):
        with tf.variable_scope("gen"):
            fake = BatchNorm("bn", real * 0 + 2, momentum=0.9)
        with tf.variable_scope("discrim"):
            judged = BatchNorm("bn", real * 0 + 3, momentum=0.9)
        return GANCosts(tf.reduce_mean(fake), tf.reduce_mean(judged))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize(("d_steps", "g_steps"), ROUNDS)
def test_statistics_move_with_the_steps_of_their_network(kit, configure, d_steps, g_steps):
    def config(weights):
        data = [[np.zeros([4, 1], np.float32)]] * 3
        return configure(
            model=Statistics(), dataflow=data, callbacks=[weights, RunUpdateOps()], steps_per_epoch=3
        )

    found = weights_of(kit, config, d_steps=d_steps, g_steps=g_steps)
    updates = {
        scope: np.log(1 - found[f"{scope}/bn/mean/EMA"][0] / mean) / np.log(0.9)
        for scope, mean in (("gen", 2), ("discrim", 3))
    }
    assert updates == pytest.approx({"gen": 6 * g_steps, "discrim": 6 * d_steps}, rel=1e-3)


@pytest.mark.parametrize(("d_steps", "g_steps"), [(1, 1), (2, 1), (2, 2)])
def test_two_devices_are_one_with_the_batches_of_both(kit, gan, configure, d_steps, g_steps):
    def trained(batch, trainer, **options):
        def config(weights):
            flow = gan.parabola_data(160, batch)
            return configure(
                model=gan.Parabola(), dataflow=flow, callbacks=[weights], steps_per_epoch=10, max_epoch=1
            )

        return weights_of(kit, config, trainer, d_steps=d_steps, g_steps=g_steps, **options)

    one, two = trained(8, GANTrainer), trained(4, MultiGPUGANTrainer, devices=CPUS)
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("d_steps", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_resumed_training_continues_with_the_same_noise_and_data(kit, gan, configure, tmp_path, d_steps):
    def trained(place, epochs, **changes):
        def config(weights):
            return configure(
                model=gan.Digits(),
                dataflow=gan.digits_data(),
                callbacks=[weights, RunUpdateOps(), ModelSaver()],
                steps_per_epoch=5,
                log_dir=tmp_path / place,
                max_epoch=epochs,
                **changes,
            )

        return weights_of(kit, config, d_steps=d_steps)

    whole = trained("whole", 4)
    trained("parts", 2)
    kit.assert_same(trained("parts", 4, resume="auto"), whole)


def test_an_epoch_is_a_pass_of_the_data(gan, configure):
    flow = gan.digits_data(44)  # 11 batches

    def rounds(**options):
        return GANTrainer(configure(model=gan.Digits(), dataflow=flow), **options).explain()

    assert "of 11 steps" in rounds() and "of 3 steps" in rounds(d_steps=3, g_steps=2)
    assert "each step: 2 more before it, as d_steps asks for" in rounds(d_steps=3)
    with pytest.raises(ConfigError, match="A step takes 12 datapoints, but one pass of the data has 11"):
        rounds(d_steps=12)


class Breaking(GANModelDesc):
    """A network with a cost that becomes infinite together with a number of the data."""

    def __init__(self, breaks):
        self.breaks = breaks

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "real")]

    def build_graph(self, real):
        costs = []
        for scope in ("gen", "discrim"):
            with tf.variable_scope(scope):
                weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
            costs.append(
                weight + (tf.log(real, name=f"log_of_{scope}") * weight if scope == self.breaks else 0)
            )
        return GANCosts(*costs)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize("breaks", ["gen", "discrim"])
@pytest.mark.parametrize("d_steps", [1, 3])
def test_nonfinite_values_are_named(configure, breaks, d_steps):
    data = [[np.float32(1)]] * 7 + [[np.float32(-1)]]
    config = configure(model=Breaking(breaks), dataflow=data, callbacks=[TerminateOnNaN()], steps_per_epoch=8)
    with pytest.raises(NonFiniteError, match=f"log_of_{breaks}"):
        GANTrainer(config, d_steps).train()


@pytest.mark.parametrize("options", [{"d_steps": 0}, {"g_steps": 1.5}, {"d_steps": True}, {"g_steps": "2"}])
def test_numbers_of_steps(gan, configure, options):
    with pytest.raises(ConfigError, match=f"GANTrainer.*{next(iter(options))}"):
        GANTrainer(configure(model=gan.Digits(), dataflow=gan.digits_data()), **options)


def test_several_batches_need_a_source_without_feeds(gan, configure):
    config = configure(model=gan.Digits(), dataflow=None, data=FeedInput(gan.digits_data()))
    with pytest.raises(ConfigError, match="takes several batches in a step, but FeedInput feeds one"):
        GANTrainer(config, d_steps=2)


def test_a_round_is_not_repeated_in_a_call(gan, configure):
    config = configure(model=gan.Digits(), dataflow=None, data=QueueInput(gan.digits_data()), steps_per_run=2)
    with pytest.raises(ConfigError, match="Remove steps_per_run"):
        GANTrainer(config, d_steps=2).train()


def test_a_model_of_one_cost(configure):
    with pytest.raises(ConfigError, match="GANTrainer trains a GANModelDesc"):
        GANTrainer(configure())


def test_a_trainer_of_one_cost(gan, configure):
    with pytest.raises(ModelError, match="GANCosts"):
        SimpleTrainer(configure(model=gan.Digits(), dataflow=gan.digits_data()))


def test_a_trainer_trains_once(gan, configure):
    trainer = GANTrainer(configure(model=gan.Digits(), dataflow=gan.digits_data(), steps_per_epoch=1))
    trainer.train()
    with pytest.raises(TrainerStateError):
        trainer.train()
