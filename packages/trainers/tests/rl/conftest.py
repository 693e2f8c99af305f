"""Environments and models for all tests of agents; gymnasium is not required."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected
from towerpack_trainers.rl import Categorical, PolicyModel


class Box:
    """A space of arrays with the attributes of gymnasium's."""

    def __init__(self, shape, dtype="float32", low=-np.inf, high=np.inf):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)


class Discrete:
    """A space of choices."""

    def __init__(self, n, start=0):
        self.n, self.start, self.shape, self.dtype = n, start, (), np.dtype("int64")


class Walks:
    """A walk in each environment, left (0) or right (1), from near the middle of a corridor.

    It ends at -3, without a reward, or at 3, with reward 1; each step costs 0.05; it is cut after `limit`
    steps. Where it begins is drawn by generators of the environments, so that the episodes of each are the
    same in all autoreset modes.
    """

    def __init__(self, count=4, mode="NextStep", limit=8):
        self.num_envs, self.metadata, self._limit = count, {"autoreset_mode": mode}, limit
        self.single_observation_space, self.single_action_space = Box([2]), Discrete(2)
        self.steps, self.closed = 0, False

    def reset(self, *, seed=None, options=None):
        which = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        if seed is not None:
            self._random = [np.random.default_rng(seed + number) for number in range(self.num_envs)]
        if options is None:
            self._place, self._time = np.zeros((2, self.num_envs), np.int64)
            self._ended = np.zeros(self.num_envs, bool)
        self._begin(which)
        return self._observation(), {}

    def step(self, actions):
        assert set(np.unique(actions)) <= {0, 1}
        mode, self.steps = self.metadata["autoreset_mode"], self.steps + 1
        assert mode != "Disabled" or not self._ended.any()
        moving = ~self._ended if mode == "NextStep" else np.ones(self.num_envs, bool)
        self._place += np.where(moving, 2 * np.asarray(actions) - 1, 0)
        self._time += moving
        terminated = moving & (np.abs(self._place) >= 3)
        truncated = moving & ~terminated & (self._time >= self._limit)
        reward = np.where(moving, (self._place >= 3) - 0.05, 0.0)
        infos: dict[str, Any] = {}
        if mode == "NextStep":
            self._begin(~moving)
        self._ended = terminated | truncated
        if mode == "SameStep" and self._ended.any():
            last = self._observation()
            infos["final_obs"] = np.array(
                [row if ended else None for row, ended in zip(last, self._ended)], object
            )
            self._begin(self._ended.copy())
        return self._observation(), reward, terminated, truncated, infos

    def close(self):
        self.closed = True

    def _begin(self, which):
        for number in np.flatnonzero(which):
            self._place[number] = self._random[number].integers(-1, 2)
            self._time[number], self._ended[number] = 0, False

    def _observation(self):
        return np.stack([self._place / 3, self._time / self._limit], 1).astype(np.float32)

    # Its whole state, for exact resume.
    exact = True

    def state_dict(self):
        return {
            "place": self._place.tolist(),
            "time": self._time.tolist(),
            "ended": self._ended.tolist(),
            "random": [each.bit_generator.state for each in self._random],
        }

    def load_state_dict(self, state):
        self._place, self._time = np.array(state["place"]), np.array(state["time"])
        self._ended = np.array(state["ended"])
        self._random = [np.random.default_rng(0) for _ in range(self.num_envs)]
        for each, kept in zip(self._random, state["random"]):
            each.bit_generator.state = kept


class OneWalk:
    """One walk, as a single environment."""

    def __init__(self):
        self._walks = Walks(1, "Disabled")
        self.observation_space = self._walks.single_observation_space
        self.action_space = self._walks.single_action_space
        self.seeds, self.closed = [], False

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        observation, infos = self._walks.reset(seed=seed)
        return observation[0], infos

    def step(self, action):
        observation, reward, terminated, truncated, infos = self._walks.step(np.array([action]))
        self._walks._ended[:] = False
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), infos

    def close(self):
        self.closed = True


class Walker(PolicyModel):
    """A small policy for walks."""

    def policy(self, observation):
        hidden = FullyConnected("hidden", observation, 16, activation=tf.nn.tanh)
        logits = FullyConnected("logits", hidden, self.action_space.n)
        return Categorical(logits), FullyConnected("value", hidden, 1)[:, 0]

    def optimizer(self):
        return tf.train.AdamOptimizer(0.01)


@pytest.fixture
def box():
    return Box


@pytest.fixture
def discrete():
    return Discrete


@pytest.fixture
def walks():
    return Walks


@pytest.fixture
def one_walk():
    return OneWalk


@pytest.fixture
def walker():
    return Walker
