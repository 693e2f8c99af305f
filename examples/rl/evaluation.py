"""The common parts of the examples of agents: environments, the end of a training, and its figure.

Each training script of this folder has a function `make_model(env, envs)`, so that `play.py` can load its
checkpoints.
"""

import json
from pathlib import Path

import gymnasium
import numpy as np

from towerpack_callbacks import Callback, StopTraining
from towerpack_trainers import OfflinePredictor, PredictConfig, SaverRestore
from towerpack_trainers.rl import Episode, play_episodes

# Three disjoint ranges of seeds: training, from the seed of the run; evaluations, which choose the weights;
# and tests, which give the figure.
EVALUATION_SEED, TEST_SEED, TESTS = 1_000_000, 2_000_000, 100

STATISTIC = "evaluation_mean_return"

# The mean return of test episodes that a training must reach. A random agent reaches none of them.
GOALS = {
    "CartPole-v1": 475,
    "Acrobot-v1": -80,
    "MountainCar-v0": -105,
    "Pendulum-v1": -250,
    "MinAtar/Breakout-v1": 8,
    "Pong": -10,
}


def make_envs(name, count, **options):
    """Creates vector environments by gymnasium's names, or by names of ale-py such as "Pong".

    Args:
        name: such as "CartPole-v1", "MinAtar/Breakout-v1" or "Pong".
        count: the number of environments.
        options: of the environments.
    """
    if "-v" not in name:
        from ale_py import AtariVectorEnv, roms

        if name.lower() not in roms.get_all_rom_ids():
            raise gymnasium.error.NameNotFound(
                f"ale-py has no ROM {name.lower()!r}. It has: {', '.join(sorted(roms.get_all_rom_ids()))}."
            )
        return AtariVectorEnv(name.lower(), num_envs=count, **options)
    register(name)
    # gymnasium has NumPy implementations of some vector environments.
    together = gymnasium.spec(name).vector_entry_point is not None
    mode = "vector_entry_point" if together else "sync"
    return gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode, **options)


def register(name):
    """Registers environments of other packages with gymnasium."""
    if name.startswith("MinAtar/") and name not in gymnasium.registry:
        from minatar.gym import register_envs  # type: ignore[import-not-found, unused-ignore]

        register_envs()


class StopAt(Callback):
    """Ends the training when the mean return of an evaluation reaches a goal."""

    def __init__(self, goal):
        self._goal = goal

    def consumes(self):
        return [STATISTIC]

    def _trigger(self):
        monitors = self.trainer.monitors
        if STATISTIC in monitors and monitors.get_latest(STATISTIC) >= self._goal:
            raise StopTraining(f"{STATISTIC} has reached {self._goal:g}")


def greedy(model, log_dir):
    """Returns a predictor of the best weights of a training: from observations to actions.

    Args:
        model: as trained.
        log_dir: the run's directory.
    """
    best = SaverRestore(Path(log_dir) / f"max-{STATISTIC}")
    return OfflinePredictor(
        PredictConfig(
            model=model, session_init=best, input_names=["observation"], output_names=["greedy_action"]
        )
    )


def play(predictor, env, episodes, seed):
    """Plays episodes with a predictor of actions, and returns them."""
    predict = predictor.in_calling_thread()
    return play_episodes(env, lambda observation: predict(observation)[0], episodes, seed=seed)


def make_test_envs(env):
    """Makes the environments of the test episodes."""
    return make_envs(env, TESTS if "-v" in env else 10)


def test(script, env, seed, model, log_dir, steps) -> list[Episode]:
    """Plays the test episodes by the best weights, and reports them.

    Args:
        script: name of the module that has trained.
        env: name of the environment.
        seed: of the training.
        model: as trained.
        log_dir: the run's directory.
        steps: the number of environment steps of the training.
    """
    envs = make_test_envs(env)
    with greedy(model, log_dir) as predictor:
        played: list[Episode] = play(predictor, envs, TESTS, TEST_SEED)
    envs.close()
    report(script, env, seed, played, log_dir, steps)
    return played


def report(script, env, seed, played, log_dir, steps) -> None:
    """Writes result.json, and prints the figure of test episodes as the last line; see `test`."""
    returns = [episode.total for episode in played]
    result = {"script": script, "env": env, "seed": seed, "env_steps": steps, "returns": returns}
    result["passed"] = passed(env, returns)
    (Path(log_dir) / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"{env}, seed {seed}: {steps:,} steps of the environments")
    print(figure(returns))


def passed(env, returns):
    """Returns whether test episodes of an environment reach its goal."""
    return bool(np.mean(returns) >= GOALS[env])


def figure(returns):
    """Returns the line with the result of an agent."""
    return f"mean return {np.mean(returns):.1f} ± {np.std(returns):.1f} over {len(returns)} episodes"
