"""Acting in ale-py's vector environment of Pong, and its two parts separately: environment and policy."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import _rounds
import numpy as np
from _screen import on_screen

ENVS, STEPS = 8, _rounds.shorter(128, 4)
THREADS = 2
SECONDS = 1.0 if not _rounds.SMOKE else 0.02


class Speed(NamedTuple):
    """Steps of single environments per second.

    Attributes:
        environment: of stepping alone.
        inference: of asking the policy alone, for an action of each environment.
        in_turn: of a bare loop of both calls, which keeps nothing.
        acting: of both, as a training does it.
    """

    environment: float
    inference: float
    in_turn: float
    acting: float


def games() -> Any:
    """Games with the usual pictures: 84 x 84, four of them stacked, four frames a step."""
    from ale_py import AtariVectorEnv

    return AtariVectorEnv("pong", num_envs=ENVS, num_threads=THREADS)


class TimedRollout:
    """A rollout that measures how long it takes to be filled: how long an agent acts.

    Attributes:
        seconds: of the last time.
    """

    def __init__(self, rollout: Any) -> None:
        self._rollout = rollout
        self.seconds = self._begin = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rollout, name)

    def __len__(self) -> int:
        return len(self._rollout)

    def clear(self) -> None:
        """Begins to measure."""
        self._begin = time.perf_counter()
        self._rollout.clear()

    def finish(self, next_value: Any) -> None:
        """Ends it."""
        self._rollout.finish(next_value)
        self.seconds = time.perf_counter() - self._begin


def rounds(count: int) -> Callable[[], list[Speed]]:
    """Returns a function that trains for a number of epochs, and measures each."""
    import tensorflow.compat.v1 as tf

    from towerpack_callbacks import Callback
    from towerpack_dataflow.replay import RolloutBuffer
    from towerpack_layers import Conv2D, FullyConnected
    from towerpack_trainers import TrainConfig
    from towerpack_trainers.rl import Categorical, PolicyModel, PPOTrainer

    class Agent(PolicyModel):
        """Two convolutions and a layer, for the policy and for values."""

        def policy(self, observation: Any) -> Any:
            x = tf.cast(tf.transpose(observation, [0, 2, 3, 1]), tf.float32) / 255
            x = Conv2D("conv0", x, 16, 8, strides=4, padding="valid", activation=tf.nn.relu)
            x = Conv2D("conv1", x, 32, 4, strides=2, padding="valid", activation=tf.nn.relu)
            x = FullyConnected("hidden", x, 256, activation=tf.nn.relu)
            logits = FullyConnected("logits", x, self.action_space.n)
            return Categorical(logits), FullyConnected("value", x, 1)[:, 0]

        def optimizer(self) -> Any:
            return tf.train.AdamOptimizer(2.5e-4)

    class Parts(Callback):
        """Measures the parts after each epoch, whose acting was made before it."""

        def __init__(self, rollout: TimedRollout) -> None:
            self.speeds: list[Speed] = []
            self._rollout = rollout

        def _setup_graph(self) -> None:
            outputs = ["sampled_action", "action_log_probability", "state_value"]
            predictor = self.trainer.get_predictor(["observation", "rng_key"], outputs)
            self._predict = predictor.in_calling_thread()

        def _before_train(self) -> None:
            self._games = games()
            self._observation = self._games.reset(seed=0)[0]

        def _trigger_epoch(self) -> None:
            acting = STEPS * ENVS / self._rollout.seconds
            actions = np.zeros(ENVS, np.int64)
            environment = _steps_per_second(lambda: self._games.step(actions))
            key = np.ones(2, np.int64)
            inference = _steps_per_second(lambda: self._predict(self._observation, key))
            in_turn = _steps_per_second(lambda: self._games.step(self._predict(self._observation, key)[0]))
            self.speeds.append(Speed(environment, inference, in_turn, acting))

        def _after_train(self) -> None:
            self._games.close()

    def run() -> list[Speed]:
        envs = games()
        spaces = envs.single_observation_space, envs.single_action_space
        rollout = TimedRollout(RolloutBuffer(*spaces, STEPS, ENVS, seed=0))
        parts = Parts(rollout)
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=Agent.of(envs),
                callbacks=[parts],
                steps_per_epoch=2,
                max_epoch=1 + count,
                log_dir=log_dir,
            )
            PPOTrainer(config, envs, rollout, batch_size=STEPS * ENVS, epochs=1).train()
        envs.close()
        return parts.speeds[1:]

    return run


def _steps_per_second(call: Callable[[], Any]) -> float:
    call()
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < SECONDS:
        call()
        calls += 1
    return ENVS * calls / elapsed
