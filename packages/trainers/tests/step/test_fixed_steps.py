"""Several steps in one session call have the same effect as separate calls."""

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
from towerpack_inputsource import BatchQueueInput, FeedInput, QueueInput, StagingInput, TFDatasetInput
from towerpack_trainers import ConfigError, ModelDesc, SimpleTrainer, SyncMultiGPUTrainer

MODELS = ("Line", "Random")


class See(Callback):
    """Fetches the cost at a period, together with the step."""

    def __init__(self, every):
        self.every, self.seen = every, []

    def step_fetches(self):
        [cost] = self.trainer.get_tensors(["cost"])
        return [StepFetch(cost, lambda value: self.seen.append((self.global_step, float(value))), self.every)]


def trained(configure, kit, times, trainer=SimpleTrainer, callbacks=(), options=None, **changes):
    """Trains `Random` for 24 steps; returns its weights and the callbacks' recorder."""
    weights, recorder = kit.Weights(), kit.Recorder()
    changes.setdefault("model", kit.Random())
    if "data" not in changes:
        changes.setdefault("dataflow", kit.net_flow())
    config = configure(
        callbacks=[weights, recorder, *callbacks], steps_per_epoch=12, steps_per_run=times, **changes
    )
    trainer(config, **(options or {})).train()
    return weights.values, recorder.calls


@pytest.mark.parametrize("times", [2, 3, 12])
def test_weights_are_the_same_to_the_last_bit(configure, kit, times):
    plain, _ = trained(configure, kit, 1)
    repeated, calls = trained(configure, kit, times)
    kit.assert_same(plain, repeated)
    triggered = [(local, step) for what, _, local, step in calls if what == "trigger_step"]
    assert triggered == [((step - 1) % 12, step) for step in range(times, 25, times)]


class Noisy(ModelDesc):
    """Records the numbers that a stateful random op draws."""

    def __init__(self, seed):
        self.seed, self.drawn = seed, []

    def inputs(self):
        return [tf.TensorSpec([], tf.float64, "x")]

    def keep(self, number):
        self.drawn.append(float(number))
        return number

    def build_graph(self, x):
        drawn = tf.numpy_function(
            self.keep, [tf.random_normal([], dtype=tf.float64, seed=self.seed)], tf.float64
        )
        weight = tf.get_variable("w", [], tf.float64, tf.zeros_initializer())
        return tf.multiply(weight, tf.ensure_shape(drawn, []) + x, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(1.0)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("times", [2, 4])
def test_each_step_draws_other_noise(configure, kit, times, seed):
    model = Noisy(seed)
    # At steps with a fetch, the session runs other copies of the ops.
    seen = [See(Every(steps=12))]
    trained(configure, kit, times, callbacks=seen, model=model, dataflow=[[np.float64(0)]] * 12)
    assert len(model.drawn) == len(set(model.drawn)) == 24


@pytest.mark.parametrize("times", [2, 4])
def test_fetches_are_those_of_the_last_step(configure, kit, times):
    def costs(per_run, period):
        see = See(period)
        trained(configure, kit, per_run, callbacks=[see])
        return dict(see.seen)

    every_step = costs(1, Every(steps=1))
    for period, steps in [
        (Every(steps=1), range(times, 25, times)),
        (Every(steps=2 * times), range(2 * times, 25, 2 * times)),
        (Every(epochs=1), (12, 24)),
    ]:
        assert costs(times, period) == {step: every_step[step] for step in steps}


def test_several_fetches_and_session_hooks(configure, kit):
    see, again = See(Every(steps=1)), See(Every(steps=1))
    extra = [MovingAverageSummary(), HookToCallback(kit.Nothing())]
    repeated, _ = trained(configure, kit, 3, callbacks=[see, again], extra_callbacks=extra)
    plain, _ = trained(configure, kit, 1)
    kit.assert_same(plain, repeated)
    assert see.seen == again.seen and [step for step, _ in see.seen] == list(range(3, 25, 3))


@pytest.mark.parametrize("times", [2, 12])
def test_moving_averages_include_every_step(configure, kit, times):
    def cost(per_run):
        average = MovingAverageSummary()
        trained(configure, kit, per_run, extra_callbacks=[average])
        return average.state_dict()["sum"]["cost"]

    assert cost(times) == cost(1) > 0


def source(kind, kit):
    """An input over the same batches."""
    flow = kit.net_flow()
    if kind == "queue":
        return QueueInput(flow)
    if kind == "batch queue":
        return BatchQueueInput([[x[0], y[0]] for x, y in kit.net_data(24, 1)], 4)
    if kind == "staging":
        return StagingInput(QueueInput(flow))
    [[images, labels]] = kit.net_data(1, 96)
    return TFDatasetInput(lambda: tf.data.Dataset.from_tensor_slices((images, labels)).batch(4))


@pytest.mark.parametrize("kind", ["queue", "batch queue", "staging", "dataset"])
def test_each_source_that_lives_in_the_graph(configure, kit, kind):
    plain, _ = trained(configure, kit, 1, data=source(kind, kit))
    repeated, _ = trained(configure, kit, 4, data=source(kind, kit))
    kit.assert_same(plain, repeated)


def test_several_towers(configure, kit):
    def weights(times):
        options = {"devices": ["/cpu:0", "/cpu:1"]}
        return trained(configure, kit, times, SyncMultiGPUTrainer, options=options, model=kit.Net())[0]

    kit.assert_same(weights(1), weights(6))


def test_a_checkpoint_holds_the_position_after_the_last_step(configure, kit, tmp_path):
    whole, _ = trained(configure, kit, 4)
    run = tmp_path / "resumed"
    trained(configure, kit, 4, max_epoch=1, callbacks=[ModelSaver()], log_dir=run)
    resumed, _ = trained(configure, kit, 4, callbacks=[ModelSaver()], log_dir=run, resume="auto")
    kit.assert_same(whole, resumed)


def test_resuming_within_a_run_is_refused(configure, kit, tmp_path):
    run = tmp_path / "resumed"
    saver = PeriodicTrigger(ModelSaver(), every_k_steps=6, before_train=False)
    trained(configure, kit, 6, max_epoch=1, callbacks=[saver], log_dir=run)
    with pytest.raises(ConfigError, match=r"after 12 steps.*not a multiple of steps_per_run=5"):
        SimpleTrainer(
            configure(
                model=kit.Random(),
                dataflow=kit.net_flow(),
                steps_per_epoch=15,
                steps_per_run=5,
                log_dir=run,
                resume="auto",
                callbacks=[ModelSaver()],
            )
        ).train()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"steps_per_epoch": 10}, "steps_per_epoch=10 is not a multiple of steps_per_run=4"),
        ({"callbacks": [See(Every(steps=6))]}, "See acts every 6 steps.*steps_per_run=4"),
        (
            {"callbacks": [PeriodicTrigger(ModelSaver(), every_k_steps=2)]},
            "ModelSaver.* acts every 2 steps.*steps_per_run=4",
        ),
    ],
)
def test_periods_that_end_within_a_run_are_refused(configure, changes, message):
    values = {"steps_per_epoch": 12, "steps_per_run": 4, **changes}
    with pytest.raises(ConfigError, match=message):
        SimpleTrainer(configure(**values)).explain()


def test_feeds_are_refused(configure, kit):
    with pytest.raises(ConfigError, match=r"a step without feeds.*QueueInput"):
        SimpleTrainer(
            configure(data=FeedInput(kit.line_data()), steps_per_epoch=4, steps_per_run=2)
        ).explain()


def test_a_custom_step_is_refused(configure):
    class Twice(SimpleTrainer.__mro__[1]):
        def _build_train_op(self):
            self.source.get_input_tensors()
            return tf.no_op()

        def run_step(self):
            self.hooked_sess.run(self.train_op)
            self.hooked_sess.run(self.train_op)

    with pytest.raises(ConfigError, match=r"Twice has its own run_step\(\)"):
        Twice(configure(steps_per_epoch=4, steps_per_run=2)).explain()


@pytest.mark.parametrize("times", [0, -1, 1.5, "2"])
def test_the_number_is_checked(configure, times):
    with pytest.raises(ConfigError, match="steps_per_run"):
        configure(steps_per_run=times)
