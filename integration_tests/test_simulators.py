"""Simulators in separate processes, their master, predictions for many threads, and the learner."""

import os
import re
import signal
import sys
import threading
from functools import partial
from time import monotonic

import cloudpickle
import gymnasium
import pytest
import tensorflow.compat.v1 as tf
from gymnasium.wrappers import TransformReward

from towerpack_callbacks import Callback
from towerpack_dataflow import EnvError, WorkerDiedError
from towerpack_dataflow.envs.simulators import SimulatorMaster, SimulatorProcess
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import BatchA3CTrainer, Categorical, PolicyModel

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Agent(PolicyModel):
    """A small network."""

    def policy(self, observation):
        hidden = FullyConnected("hidden", observation, 16, activation=tf.nn.tanh)
        logits = FullyConnected("logits", hidden, self.action_space.n)
        return Categorical(logits), FullyConnected("value", hidden, 1)[:, 0]

    def optimizer(self):
        return tf.train.AdamOptimizer(2e-3)


class Watch(Callback):
    """Keeps what the training says of itself; does something at a step."""

    def __init__(self, at_step=None, act=None):
        self._at_step, self._act = at_step, act

    def _trigger_step(self):
        if self.global_step == self._at_step:
            self._act()

    def _trigger_epoch(self):
        monitors = self.trainer.monitors
        self.mean_return = monitors.get_latest("mean_return")
        self.predictions = monitors.get_latest("predictions_per_second")


# Simulators need not import this module, and TensorFlow with it.
cart_pole = partial(gymnasium.make, "CartPole-v1")


def pids_of(master):
    """The processes of the simulators."""
    return [worker.process.pid for worker in master._workers._group.workers]


def train(master, watch, steps=200):
    config = TrainConfig(
        model=Agent.of(master),
        callbacks=[watch],
        steps_per_epoch=steps // 2,
        max_epoch=2,
        log_dir=None,
        seed=3,
    )
    pids = pids_of(master)
    try:
        BatchA3CTrainer(config, master, steps=5).train()
    finally:
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if re.search("Simulator|Predictor|towerpack", name)]


def test_a_training_of_simulators():
    master = SimulatorMaster([SimulatorProcess([cart_pole] * 8)] * 2, seed=1)
    watch = Watch()
    train(master, watch)
    assert watch.env_steps > 150 * 16 * 5
    assert watch.predictions > 0
    assert watch.mean_return > 5


def test_a_killed_simulator_ends_the_training_and_is_named():
    master = SimulatorMaster([SimulatorProcess([cart_pole] * 2)] * 2, seed=1)
    began = []

    def kill():
        began.append(monotonic())
        os.kill(pids_of(master)[1], signal.SIGKILL)

    with pytest.raises(WorkerDiedError, match=r"simulator 1 \(process \d+\) was killed by SIGKILL"):
        train(master, Watch(20, kill), steps=10**6)
    assert monotonic() - began[0] < 30  # all has ended by now


def test_an_environment_that_fails_ends_the_training_and_is_named():
    def broken():
        rewards = iter([1.0] * 100)
        return TransformReward(gymnasium.make("CartPole-v1"), lambda _: next(rewards, float("nan")))

    master = SimulatorMaster([SimulatorProcess([cart_pole, broken])], seed=1)
    with pytest.raises(
        EnvError, match=r"environment 1 .* in step \d+ of episode \d+: the reward is nan"
    ) as caught:
        train(master, Watch(), steps=10**6)
    assert "(simulator 0, process" in caught.value.__notes__[0]


def test_ctrl_c_ends_the_simulators():
    master = SimulatorMaster([SimulatorProcess(cart_pole)], seed=1)
    watch = Watch(20, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            train(master, watch, steps=10**6)
    finally:
        signal.signal(signal.SIGINT, before)
    assert watch.env_steps > 0
