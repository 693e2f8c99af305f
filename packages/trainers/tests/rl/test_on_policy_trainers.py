"""Agents that learn from their newest policy: they learn, on one device or two, and resume exactly."""

import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger, StopTraining
from towerpack_dataflow.replay import RolloutBuffer
from towerpack_layers import FullyConnected
from towerpack_trainers import ConfigError, EnvironmentStepError, ModelError, TrainConfig, fast_dev_run
from towerpack_trainers.rl import (
    A2CTrainer,
    Categorical,
    DiagonalGaussian,
    PolicyModel,
    PPOObjective,
    PPOTrainer,
)

STEPS, COUNT = 8, 4


@pytest.fixture
def train(walks, walker, kit, tmp_path):
    """Trains on walks, and returns the trainer and its last weights."""

    def run(
        kind=PPOTrainer,
        envs=None,
        model=walker,
        callbacks=(),
        dry_run=False,
        rollout=None,
        max_epoch=1,
        steps_per_epoch=None,
        resume=None,
        name="log",
        monitors=(),
        **arguments,
    ):
        envs = walks(COUNT) if envs is None else envs
        group = envs[0] if isinstance(envs, list) else envs
        spaces = group.single_observation_space, group.single_action_space
        weights = kit.Weights()
        config = TrainConfig(
            model=model.of(group),
            callbacks=[*callbacks, weights],
            max_epoch=max_epoch,
            steps_per_epoch=steps_per_epoch,
            log_dir=tmp_path / name,
            resume=resume,
            seed=11,
            monitors=list(monitors),
        )
        rollout = RolloutBuffer(*spaces, STEPS, COUNT, seed=5) if rollout is None else rollout
        if kind is PPOTrainer:
            arguments = {"batch_size": 16, "epochs": 2, **arguments}
        trainer = kind(fast_dev_run(config) if dry_run else config, envs, rollout, **arguments)
        trainer.train()
        return trainer, weights.values

    return run


def mean_return(trainer):
    return trainer.monitors.get_latest("mean_return")


class StopsSoon(Callback):
    """Fails at a step."""

    def __init__(self, step):
        self._step = step

    def _trigger_step(self):
        if self.global_step == self._step:
            raise InterruptedError("killed")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_ppo_learns(train, walks, mode):
    trainer, _ = train(envs=walks(COUNT, mode), max_epoch=3)
    history = [value for _, value in trainer.monitors.get_history("mean_return")]
    assert history[0] < 0.7 < 0.8 < history[-1]
    assert trainer.loop.env_steps <= 30 * STEPS * COUNT


@pytest.mark.slow
def test_a2c_learns(train):
    trainer, _ = train(A2CTrainer, max_epoch=10)
    assert mean_return(trainer) > 0.75
    assert trainer.loop.global_step == 100


@pytest.mark.slow
def test_continuous_actions(train, walks, box):
    class Numbers(walks):
        """A walk in the direction of a number's sign, which is never out of bounds."""

        def __init__(self, count):
            super().__init__(count)
            self.single_action_space = box([1], low=-1, high=1)

        def step(self, actions):
            assert actions.shape == (COUNT, 1) and np.abs(actions).max() <= 1
            return super().step((actions[:, 0] > 0).astype(int))

    class Model(PolicyModel):
        def policy(self, observation):
            mean = FullyConnected("mean", observation, 1)
            value = FullyConnected("value", observation, 1)[:, 0]
            return DiagonalGaussian(mean, tf.get_variable("log_std", [1])), value

        def optimizer(self):
            return tf.train.AdamOptimizer(0.02)

    trainer, _ = train(envs=Numbers(COUNT), model=Model, max_epoch=4)
    assert mean_return(trainer) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "size"), [(STEPS, 1), (1, 1)])
def test_batches_with_only_resets(train, walks, walker, steps, size):
    # Each episode is one step, so that every other step of all environments is a reset: neighbours are empty.
    envs = walks(COUNT, limit=1)
    spaces = envs.single_observation_space, envs.single_action_space
    rollout = RolloutBuffer(*spaces, steps, COUNT, seed=5)
    trainer, weights = train(envs=envs, rollout=rollout, batch_size=size, max_epoch=1)
    assert trainer.loop.global_step == 10 * 2 * steps * COUNT // size
    assert trainer.loop.env_steps == 10 * steps * COUNT // 2
    assert all(np.isfinite(value).all() for value in weights.values())


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "size"), [("NextStep", None), ("SameStep", 16), ("Disabled", 16)])
def test_batches_have_a_fixed_size_unless_steps_only_reset(train, walks, mode, size):
    trainer, _ = train(envs=walks(COUNT, mode))
    [tower] = trainer.tower_func.training
    assert {tensor.shape[0] for tensor in tower.inputs.values()} == {size}


def test_two_devices_equal_one(train, walks):
    # Advantages are not normalised, as each device would do it for itself; all steps are valid, so that all
    # batches are of one size.
    same = {"objective": PPOObjective(normalize=False), "steps_per_epoch": 8}
    one, of_one = train(envs=walks(COUNT, "SameStep"), name="one", **same)
    devices = ["/cpu:0", "/cpu:1"]
    two, of_two = train(envs=walks(COUNT, "SameStep"), name="two", batch_size=8, devices=devices, **same)
    assert one.loop.global_step == two.loop.global_step == 8
    assert one.loop.env_steps == two.loop.env_steps == 2 * STEPS * COUNT
    for name, value in of_one.items():
        np.testing.assert_allclose(of_two[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_groups_of_environments_that_overlap_or_not(train, walks, kit):
    class Sending(walks):
        def send(self, actions):
            self._result = self.step(actions)

        def recv(self):
            return self._result

    plain, expected = train(envs=[walks(2), walks(2)], name="plain", steps_per_epoch=8)
    overlapping, weights = train(envs=[Sending(2), Sending(2)], name="overlapping", steps_per_epoch=8)
    kit.assert_same(weights, expected)
    assert "one of which steps while the policy acts for another" in overlapping.explain()
    assert plain.loop.env_steps == overlapping.loop.env_steps


@pytest.mark.slow
@pytest.mark.parametrize("steps_per_epoch", [8, 6], ids=["at the end of an iteration", "amid an iteration"])
def test_a_resumed_run_is_the_same_to_the_last_bit(train, kit, steps_per_epoch):
    def callbacks():
        return [ModelSaver()]

    epochs = {"steps_per_epoch": steps_per_epoch, "max_epoch": 4}
    whole, expected = train(callbacks=callbacks(), name="whole", **epochs)
    with pytest.raises(InterruptedError):
        train(callbacks=[*callbacks(), StopsSoon(2 * steps_per_epoch + 3)], **epochs)
    resumed, weights = train(callbacks=callbacks(), resume="auto", **epochs)
    assert resumed.loop.starting_epoch == 3
    kit.assert_same(weights, expected)
    for trainer in (whole, resumed):
        assert trainer.monitors.get_history("mean_return") == whole.monitors.get_history("mean_return")
        assert len(trainer.monitors.get_history("mean_return")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("stop", [8, 11], ids=["at the end of an iteration", "amid an iteration"])
def test_a_stopped_training_does_not_act_and_resumes_to_the_last_bit(train, kit, stop):
    class At(Callback):
        """Records the amount of acting at a step, and may stop the training there."""

        def __init__(self, stops):
            self.stops = stops

        def _trigger_step(self):
            if self.global_step == stop:
                self.acted = self.trainer.loop.env_steps
                if self.stops:
                    raise StopTraining("enough")

    def callbacks():
        return [PeriodicTrigger(ModelSaver(), every_k_steps=stop)]

    epochs = {"steps_per_epoch": 24, "max_epoch": 1}
    at = At(stops=False)
    whole, expected = train(callbacks=[*callbacks(), at], name="whole", **epochs)
    stopped, _ = train(callbacks=[*callbacks(), At(stops=True)], **epochs)
    assert stopped.env_steps == at.acted < whole.env_steps
    resumed, weights = train(callbacks=[*callbacks(), At(stops=False)], resume="auto", **epochs)
    assert resumed.loop.starting_step == stop and resumed.env_steps == whole.env_steps
    kit.assert_same(weights, expected)


@pytest.mark.slow
def test_environments_without_a_state_are_reset(train, walks, caplog):
    class Stateless(walks):
        state_dict = property()

    caplog.set_level(logging.INFO)
    epochs = {"steps_per_epoch": 6, "callbacks": [ModelSaver()]}
    train(envs=Stateless(COUNT), **epochs)
    assert "their state cannot be saved" in caplog.text
    trainer, _ = train(envs=Stateless(COUNT), resume="auto", max_epoch=2, **epochs)
    assert "Environment state is not restorable" in caplog.text
    assert "resume: in new episodes" in trainer.explain()


@pytest.mark.slow
def test_a_dry_run_does_not_change_the_training(train, walks, kit):
    _, expected = train(name="alone", steps_per_epoch=8)
    envs = walks(COUNT)
    rollout = RolloutBuffer(envs.single_observation_space, envs.single_action_space, STEPS, COUNT, seed=5)
    dry, _ = train(envs=envs, rollout=rollout, dry_run=True, callbacks=[ModelSaver()])
    assert dry.loop.global_step == 2
    _, weights = train(envs=envs, rollout=rollout, name="after", steps_per_epoch=8)
    kit.assert_same(weights, expected)


@pytest.mark.slow
def test_the_fractions_of_time_are_reported(train, walks, capsys):

    trainer, _ = train()
    text = trainer.explain()
    assert "environments: 4 in Walks, autoreset mode NEXT_STEP" in text
    assert "an iteration: 32 steps, 8 of each environment, then 4 updates by batches of at most 16" in text
    assert "resume: exact" in text
    names = ["environment_share", "inference_share", "learner_share", "idle_share"]
    shares = [trainer.monitors.get_latest(name) for name in names]
    assert sum(shares) == pytest.approx(1) and min(shares) > 0
    assert trainer.monitors.get_latest("frames_per_second") > 0


@pytest.mark.slow
def test_an_environment_that_fails_ends_the_training(train, walks):
    class Failing(walks):
        def step(self, actions):
            if self.steps == 20:
                raise ValueError("the hand is stuck")
            return super().step(actions)

    with pytest.raises(EnvironmentStepError, match="failed in step 21: ValueError: the hand is stuck"):
        train(envs=Failing(COUNT))


def no_training(**change):
    """Returns a model class with an invalid policy."""

    class Wrong(PolicyModel):
        def policy(self, observation):
            return change["policy"](observation)

        def optimizer(self):
            return tf.train.AdamOptimizer()

    return Wrong


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (lambda x: Categorical(tf.zeros_like(x)), "must return a distribution of actions and the values"),
        (lambda x: (tf.zeros_like(x), x[:, 0]), "must return a distribution of actions and the values"),
        (
            lambda x: (Categorical(tf.zeros([8, 3])), x[:, 0]),
            r"Categorical of \[3\]; .* \[2\]",
        ),
        (lambda x: (DiagonalGaussian(x, 0.0), x[:, 0]), "DiagonalGaussian .* need a Categorical"),
        (lambda x: (Categorical(x), x), r"one value for each observation, of shape \[batch\]"),
    ],
)
def test_wrong_policies(train, policy, text):
    with pytest.raises(ModelError, match=text):
        train(model=no_training(policy=policy))


def test_wrong_arguments(train, walks):
    with pytest.raises(ConfigError, match=r"room for 4 environments, but envs has 3\. .*environments=3"):
        train(envs=walks(3))
    with pytest.raises(ConfigError, match=r"PPOTrainer\(batch_size=64\): expected at most 32"):
        train(batch_size=64)
    with pytest.raises(ConfigError, match="6 batches, which cannot be divided evenly among 5 towers"):
        train(epochs=3, devices=[f"/cpu:{number}" for number in range(5)])
    with pytest.raises(ConfigError, match="env_state=3 has no state_dict and no load_state_dict"):
        train(env_state=3)
    with pytest.raises(ConfigError, match="expected a list of 2 states"):
        train(envs=[walks(2), walks(2)], env_state=walks(2))
    rollout = RolloutBuffer(((2,), "float32"), ((), "int64"), STEPS, COUNT, seed=1)
    with pytest.raises(ConfigError, match=r"TrainConfig\(model=a PolicyModel\)"):
        A2CTrainer(TrainConfig(max_epoch=1, log_dir=None), walks(COUNT), rollout)


def test_spaces_of_several_parts(walker, box, discrete):
    class Parts:
        spaces = {"camera": None}
        shape = dtype = None

    with pytest.raises(ConfigError, match=r"Observations of an agent must be arrays .* FlattenObservation"):
        walker(Parts(), discrete(2))
    with pytest.raises(
        ConfigError,
        match=r"Actions of an agent must be of a Discrete space, .* or of a Box of floats; .*Parts",
    ):
        walker(box([2]), Parts())


def test_input_overhead_of_an_agent_is_refused_with_advice(walks, walker):
    envs = walks(COUNT)
    rollout = RolloutBuffer(envs.single_observation_space, envs.single_action_space, STEPS, COUNT, seed=5)
    config = TrainConfig(model=walker.of(envs), max_epoch=1, log_dir=None, monitors=[])
    with pytest.raises(ConfigError, match=r"PPOTrainer\.measure_input_overhead: .*fractions of time of"):
        PPOTrainer(config, envs, rollout, batch_size=16).measure_input_overhead()
