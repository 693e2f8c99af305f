"""Steps per second of vector environments: ours in worker processes compared with gymnasium's.

    python benchmarks/envs.py [--smoke]

CartPole-v1 is an environment that takes microseconds, so the way there is what counts; the other one has
observations of 84 x 84 x 4 bytes, and a step of fixed work. Where they are installed, environments in C++
stand beside: EnvPool's CartPole and Pong, and ale-py's own vector of Pong, with a thread for each processor.
Ratios compare figures of one round.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import _rounds
import _verdicts
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from towerpack_dataflow.envs import ProcessVectorEnv

ROUNDS = _rounds.shorter(5)
STEPS = _rounds.shorter(500, 5)
NUM_ENVS = 16
Peers = dict[str, Callable[[], Any]]
WORK = 4000  # additions in a step: about as long as that of an Atari game


class Pixels(gymnasium.Env[Any, Any]):
    """Makes an observation of 84 x 84 x 4 bytes, after computing for a while."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode of a thousand steps."""
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros((84, 84, 4), np.uint8), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Computes, and returns a new picture."""
        sum(range(WORK))  # not until a time has passed: it passes for a process that waits for its turn, too
        self._steps += 1
        return np.full((84, 84, 4), self._steps % 256, np.uint8), 1.0, False, self._steps == 1000, {}


def cartpole() -> Any:
    """The environment of CartPole-v1, with gymnasium's usual wrappers."""
    return gymnasium.make("CartPole-v1")


def steps_a_second(envs: Any) -> float:
    """Steps of single environments in a second, with actions made before."""
    actions = np.random.default_rng(0).integers(0, 2, (STEPS, NUM_ENVS))
    begin = time.perf_counter()
    for chosen in actions:
        envs.step(chosen)
    return STEPS * NUM_ENVS / (time.perf_counter() - begin)


def pong() -> Any:
    """A game of Pong with the usual pictures, in Python."""
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    return FrameStackObservation(AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1)), 4)


def ale_games() -> Any:
    """ale-py's own vector of Pong."""
    from ale_py import AtariVectorEnv

    return AtariVectorEnv("pong", num_envs=NUM_ENVS, num_threads=os.cpu_count() or 1)


def pool(name: str) -> Any:
    """EnvPool's vector of an environment."""
    import envpool

    return envpool.make_gymnasium(name, num_envs=NUM_ENVS, num_threads=os.cpu_count() or 1)


def compare(
    name: str, make: Callable[[], Any], verdicts: _verdicts.Verdicts, peers: Peers | None = None
) -> None:
    """Measures one kind of environment in all vector environments, and prints the ratios."""
    kinds = {"ours": ProcessVectorEnv, "AsyncVectorEnv": AsyncVectorEnv, "SyncVectorEnv": SyncVectorEnv}
    vectors = {kind: vector([make] * NUM_ENVS) for kind, vector in kinds.items()}
    vectors |= {kind: make_peer() for kind, make_peer in (peers or {}).items()}
    try:
        for envs in vectors.values():
            envs.reset()
        subjects = {kind: functools.partial(steps_a_second, envs) for kind, envs in vectors.items()}
        _rounds.warm_up(subjects)
        figures = _rounds.measure(subjects, ROUNDS)
    finally:
        for envs in vectors.values():
            envs.close()
    for kind, values in figures.items():
        print(f"{name}, {kind}: {_rounds.summary(values, ',.0f')} steps/s")
    for peer in [*vectors][1:]:
        ratio = _rounds.ratios(figures["ours"], figures[peer])
        if peer == "AsyncVectorEnv":
            verdicts.at_least(f"{name}: ours / {peer}", ratio, 1.0)
        else:
            verdicts.untargeted(f"{name}: ours / {peer}", ratio)


def main() -> None:
    """Measures both kinds of environments."""
    print(_rounds.heading("towerpack-dataflow", "gymnasium", "numpy", "envpool", "ale-py"))
    print(f"{NUM_ENVS} environments; ours in one worker for each processor")
    verdicts = _verdicts.Verdicts()
    has_pool = find_spec("envpool") is not None
    in_pool = {"EnvPool": functools.partial(pool, "CartPole-v1")} if has_pool else {}
    compare("CartPole-v1", cartpole, verdicts, in_pool)
    compare("84 x 84 x 4", Pixels, verdicts)
    if find_spec("ale_py") is not None and find_spec("cv2") is not None:
        in_pool = {"EnvPool": functools.partial(pool, "Pong-v5")} if has_pool else {}
        compare("Pong", pong, verdicts, {"AtariVectorEnv": ale_games, **in_pool})
    verdicts.leave()


if __name__ == "__main__":
    main()
