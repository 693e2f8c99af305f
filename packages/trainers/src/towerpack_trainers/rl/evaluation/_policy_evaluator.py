"""Evaluates an agent during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from towerpack_callbacks import Callback

from ..._argument_checks import at_least, check_function
from ...towers._predictor import Predictor
from ..environments import Episode
from ._episode_file import EpisodeFile
from ._one_environment import as_vector, recorded
from ._play_episodes import MOST_STEPS, cut_episodes, play_episodes

__all__ = ["PolicyEvaluator"]


@final
class PolicyEvaluator(Callback):
    """Plays episodes with the greedy policy at each trigger, in a separate environment.

    It records `<name>_mean_return`, `<name>_std_return`, `<name>_mean_length` and `<name>_episodes` in the
    monitors, so `MaxSaver("evaluation_mean_return")` keeps the best weights. Each evaluation uses the same
    seeds. In the log directory, `<name>.monitor.csv` contains all episodes, with the columns `r` (return),
    `l` (length) and `t` (seconds) of Stable-Baselines3, and the seed and `global_step`.

    Args:
        make_env: makes a gymnasium environment or vector environment. Several environments make an evaluation
            faster. It is made when training begins, and closed when training ends.
        episodes: the number of episodes in an evaluation.
        seed: the seed of the first episode; see `play_episodes`. Final tests should use other seeds.
        name: the prefix of the statistics.
        max_steps: the maximum number of steps of an episode; longer ones are truncated, with a warning.
        video_dir: the directory for a video of the first episode of each evaluation, made by gymnasium's
            `RecordVideo`; None: no video. `make_env` must then make a single environment with
            `render_mode="rgb_array"`, and the extra `towerpack-trainers[video]` is required.
        output_name: the model's tensor of actions.

    Raises:
        ConfigError: an argument is invalid.
        TypeError: `make_env` is not a function.

    Example:
        ```python
        evaluator = PolicyEvaluator(lambda: gymnasium.make_vec("CartPole-v1", num_envs=10), episodes=20)
        callbacks = [PeriodicTrigger(evaluator, "5 epochs"), MaxSaver("evaluation_mean_return")]
        ```
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        episodes: int = 10,
        *,
        seed: int = 10_000,
        name: str = "evaluation",
        max_steps: int = MOST_STEPS,
        video_dir: str | Path | None = None,
        output_name: str = "greedy_action",
    ) -> None:
        owner = type(self).__name__
        self._make_env = check_function(f"{owner}(make_env=...)", make_env)
        self._episodes = at_least(owner, "episodes", episodes)
        self._seed = at_least(owner, "seed", seed, minimum=0)
        self._max_steps = at_least(owner, "max_steps", max_steps)
        self._name, self._output_name = name, output_name
        self._video_dir = None if video_dir is None else Path(video_dir)
        self._envs: Any = None
        self._file: EpisodeFile | None = None

    def _setup_graph(self) -> None:
        predict = self.trainer.get_predictor(["observation"], [self._output_name])
        self._predict = cast(Predictor, predict).in_calling_thread()

    def _before_train(self) -> None:
        env = self._make_env()
        self._envs = env  # to be closed in any case
        if self._video_dir is not None:
            self._envs = env = recorded(env, self._video_dir, self._episodes)
        self._envs = as_vector(env)
        if self.log_dir is not None:
            self._file = EpisodeFile(self.log_dir / f"{self._name}.monitor.csv", self.global_step)

    def _trigger(self) -> None:
        played = self._play()
        returns = np.array([each.total for each in played])
        statistics = (returns.mean(), returns.std(), np.mean([each.length for each in played]), len(played))
        for name, value in zip(self.produces(), statistics):
            self.trainer.monitors.put_scalar(name, float(value))
        if self._file is not None:
            self._file.append(played, self._seed, self.global_step)

    def _play(self) -> list[Episode]:
        batches = self.trainer.loop.evaluation_batches
        if batches is None:
            return play_episodes(
                self._envs, self._act, self._episodes, seed=self._seed, max_steps=self._max_steps
            )
        # A dry run evaluates few batches; each step is a batch of observations.
        return cut_episodes(self._envs, self._act, 1, self._seed, min(self._max_steps, batches))[0]

    def _act(self, observation: np.ndarray) -> np.ndarray:
        [action] = self._predict(observation)
        return cast(np.ndarray, action)

    def _after_train(self) -> None:
        envs, self._envs, self._file = self._envs, None, None
        if envs is not None:
            envs.close()

    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics."""
        parts = ("mean_return", "std_return", "mean_length", "episodes")
        return [f"{self._name}_{part}" for part in parts]

    def headlines(self) -> Sequence[str]:
        """Returns the name of the mean return, the main result of an evaluation."""
        return self.produces()[:1]

    def __str__(self) -> str:
        return f"PolicyEvaluator({self._episodes} episodes, seeds from {self._seed})"
