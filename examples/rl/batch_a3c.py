"""Train an agent by simulators that act all the time, each at its own pace: batched A3C with V-trace.

    python batch_a3c.py --env CartPole-v1 --seed 0
    python play.py train_log/batch_a3c-CartPole-v1-0 --video

Each simulator is a process with several environments that requests actions from a master in this process over
ZeroMQ; a thread predicts for all waiting requests. Runs with the same seed differ, since the speed of
processes varies. The last line is the mean return of 100 episodes that were not seen before, played by the
best weights of evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`.
"""

import argparse
from dataclasses import dataclass
from functools import partial

import gymnasium
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import EVALUATION_SEED, STATISTIC, StopAt, make_envs, test

from towerpack_callbacks import Callback, MaxSaver
from towerpack_dataflow.envs.simulators import SimulatorMaster, SimulatorProcess
from towerpack_layers import FullyConnected
from towerpack_trainers import TrainConfig
from towerpack_trainers.rl import BatchA3CTrainer, Categorical, PolicyEvaluator, PolicyModel, VTraceObjective


@dataclass(frozen=True)
class Settings:
    """The settings for an environment; `goal` is the mean return that ends the training early."""

    updates: int
    goal: float = float("inf")
    simulators: int = 2
    envs: int = 16
    steps: int = 5
    batch_size: int = 32
    rate: float = 2e-3
    gamma: float = 0.99
    entropy: float = 0.01
    reward_scale: float = 0.1
    evaluate: int = 20
    units: tuple[int, ...] = (64, 64)


SETTINGS = {
    "CartPole-v1": Settings(updates=3000, goal=500, gamma=0.98),
    "Acrobot-v1": Settings(updates=3000),
}


class Agent(PolicyModel):
    """Two networks, for the policy and for values."""

    def __init__(self, observation_space, action_space, settings):
        super().__init__(observation_space, action_space)
        self._settings = settings

    def policy(self, observation):
        logits = self._network("policy", observation, self.action_space.n)
        return Categorical(logits), self._network("value", observation, 1)[:, 0]

    def _network(self, name, x, outputs):
        with tf.variable_scope(name):
            for number, units in enumerate(self._settings.units):
                x = FullyConnected(f"hidden{number}", x, units, activation=tf.nn.tanh)
            return FullyConnected("output", x, outputs)

    def optimizer(self):
        return tf.train.AdamOptimizer(self._settings.rate)


class Speed(Callback):
    """Keeps the mean rates of predictions and of frames."""

    RATES = ("predictions_per_second", "frames_per_second")

    def consumes(self):
        return self.RATES

    def _before_train(self):
        self._seen = []

    def _trigger_epoch(self):
        self._seen.append([self.trainer.monitors.get_latest(name) for name in self.RATES])

    def text(self):
        """Returns the means over all epochs."""
        predictions, frames = (sum(rates) / len(self._seen) for rates in zip(*self._seen))
        return f"{predictions:,.0f} predictions/s, {frames:,.0f} frames/s"


def make_env(env):
    """Creates an environment of a simulator, with rewards scaled to values near 1 for faster training."""
    scale = SETTINGS[env].reward_scale
    return gymnasium.wrappers.TransformReward(gymnasium.make(env), lambda reward: scale * float(reward))


def make_model(env, envs):
    """Makes the agent for an environment."""
    return Agent.of(envs, SETTINGS[env])


def train(env, seed, log_dir, updates=None) -> None:
    """Trains, and tests."""
    settings = SETTINGS[env]
    simulator = SimulatorProcess([partial(make_env, env)] * settings.envs)
    master = SimulatorMaster([simulator] * settings.simulators, seed=seed)
    model, speed = make_model(env, master), Speed()
    evaluator = PolicyEvaluator(
        lambda: make_envs(env, settings.evaluate), settings.evaluate, seed=EVALUATION_SEED
    )
    epochs = 30
    config = TrainConfig(
        model=model,
        callbacks=[evaluator, MaxSaver(STATISTIC), StopAt(settings.goal), speed],
        steps_per_epoch=-(-(settings.updates if updates is None else updates) // epochs),
        max_epoch=epochs,
        log_dir=log_dir,
        seed=seed,
    )
    objective = VTraceObjective(discount=settings.gamma, entropy=settings.entropy)
    sizes = {"steps": settings.steps, "batch_size": settings.batch_size}
    trainer = BatchA3CTrainer(config, master, objective=objective, **sizes)
    trainer.train()
    print(speed.text())
    test("batch_a3c", env, seed, model, log_dir, trainer.env_steps)


if __name__ == "__main__":
    own = argparse.ArgumentParser()
    own.add_argument("--updates", type=int, help="for a short run; the default is that of the settings")
    run(train, SETTINGS, __doc__, own)
