"""Evaluation of agents: seeded episodes in separate environments, their returns, and videos."""

from __future__ import annotations

import contextlib
import csv
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from towerpack_callbacks import Callback
from towerpack_callbacks.writing import prepare_lines

from .._argument_checks import at_least, check_function
from .._errors import ConfigError
from ..distributed import MissingExtraError
from ..towers._predictor import Predictor
from ._environments import Episode, VectorSteps
from ._policy_model import action_spec

__all__ = [
    "MOST_STEPS",
    "Act",
    "EpisodeFile",
    "OneEnvironment",
    "PolicyEvaluator",
    "as_vector",
    "cut_episodes",
    "play_episodes",
    "recorded",
]

_log = logging.getLogger("towerpack_trainers")


@final
class OneEnvironment:
    """Steps a `gymnasium.Env` as a vector environment with one environment, in autoreset mode "NextStep".

    Args:
        env: the environment.
    """

    num_envs = 1

    def __init__(self, env: Any) -> None:
        self._env, self._ended = env, False
        self.metadata: dict[str, Any] = {"autoreset_mode": "NextStep"}
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        self._ended = False
        observation, _ = self._env.reset(seed=seed, options=options)
        return np.asarray(observation)[None], {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one step; after an episode's end, begins the next one instead."""
        if self._ended:
            result: Any = (*self._env.reset()[:1], 0.0, False, False)
            self._ended = False
        else:
            result = self._env.step(actions[0])
            self._ended = bool(result[2] or result[3])
        observation, reward, terminated, truncated = result[:4]
        flags = np.array([terminated], bool), np.array([truncated], bool)
        return np.asarray(observation)[None], np.array([reward], np.float64), *flags, {}

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


def as_vector(env: Any) -> Any:
    """Returns vector environments unchanged, and wraps a single environment as a vector environment.

    Raises:
        ConfigError: `env` is neither.
    """
    if hasattr(env, "num_envs"):
        return env
    if hasattr(env, "reset") and hasattr(env, "step") and hasattr(env, "observation_space"):
        return OneEnvironment(env)
    raise ConfigError(
        f"Episodes need a gymnasium environment or vector environment; received {env!r}. Pass a function "
        'that makes one, such as `lambda: gymnasium.make("CartPole-v1")`.'
    )


def recorded(env: Any, directory: Path, every: int) -> Any:
    """Wraps an environment with gymnasium's `RecordVideo`.

    Args:
        env: a single environment that renders arrays.
        directory: the directory of the files.
        every: the period of recorded episodes, starting with the first one.

    Raises:
        MissingExtraError: gymnasium or moviepy is not installed; they come with the extra `video`.
        ConfigError: the environment cannot be recorded.
    """
    try:
        import moviepy as _moviepy  # noqa: F401
        from gymnasium.wrappers import RecordVideo
    except ImportError as error:
        raise MissingExtraError.of("video", error) from error
    try:
        return RecordVideo(env, str(directory), episode_trigger=lambda number: number % every == 0)
    except (AttributeError, AssertionError, ValueError) as error:
        raise ConfigError(
            f"{env!r} cannot be recorded: {error} A video needs a single environment that renders images, "
            'such as `gymnasium.make("CartPole-v1", render_mode="rgb_array")`.'
        ) from error


# The limit of Atari games: 108,000 frames, with four frames in each step.
MOST_STEPS = 27_000

Act = Callable[[np.ndarray], np.ndarray]


def play_episodes(
    env: Any, act: Act, episodes: int, *, seed: int, max_steps: int = MOST_STEPS
) -> list[Episode]:
    """Plays a number of whole episodes.

    All environments begin an episode at the same time, and those that end early wait for the others, so that
    short episodes do not count more often than long ones. With `n` environments, the reset before episodes
    `n * i` to `n * i + n - 1` has the seed `seed + n * i`, which gymnasium increments for each further
    environment; so a single environment begins episode `i` with `seed + i`.

    Args:
        env: a gymnasium environment or vector environment; it is reset first.
        act: returns an action for each observation of a batch.
        episodes: the number of episodes.
        seed: the seed of the first episode.
        max_steps: the maximum number of steps of an episode. A longer episode is truncated, with a warning:
            its return is that of the steps so far.

    Returns:
        The return and the length of each episode, in the order of their seeds.

    Raises:
        ConfigError: an argument is invalid, or agents do not support the spaces.
        EnvironmentStepError: an environment failed, or returned an invalid value.

    Example:
        ```python
        act = lambda observations: np.zeros(len(observations), np.int64)
        returns = [episode.total for episode in play_episodes(env, act, 10, seed=0)]
        ```
    """
    episodes = at_least("play_episodes", "episodes", episodes)
    max_steps = at_least("play_episodes", "max_steps", max_steps)
    played, cut = cut_episodes(as_vector(env), act, episodes, seed, max_steps)
    if cut:
        _log.warning(
            "%d of %d episodes had not ended after %d steps and were truncated. Raise max_steps, or limit "
            "the environment itself with gymnasium's TimeLimit.",
            cut,
            episodes,
            max_steps,
        )
    return played


def cut_episodes(envs: Any, act: Act, episodes: int, seed: int, max_steps: int) -> tuple[list[Episode], int]:
    """Plays episodes as `play_episodes` does; returns them, and the number of truncated ones."""
    steps = VectorSteps(envs, action_spec(envs.single_action_space))
    played: list[Episode] = []
    cut = 0
    while len(played) < episodes:
        steps.reset(seed + len(played))
        together, unfinished = _play_together(
            steps, act, min(envs.num_envs, episodes - len(played)), max_steps
        )
        played += together
        cut += unfinished
    return played, cut


def _play_together(steps: VectorSteps, act: Act, count: int, max_steps: int) -> tuple[Iterator[Episode], int]:
    """Plays an episode in each environment; returns those of the first `count` environments."""
    total, length = np.zeros(steps.envs.num_envs), np.zeros(steps.envs.num_envs, np.int64)
    playing = np.arange(steps.envs.num_envs) < count
    for _ in range(max_steps):
        steps.send(act(steps.observation))
        happened = steps.receive()
        total += np.where(playing, happened.reward, 0)
        length += playing
        playing &= ~(happened.terminated | happened.truncated)
        if not playing.any():
            break
    episodes = (Episode(float(total[number]), int(length[number])) for number in range(count))
    return episodes, int(np.count_nonzero(playing))


_COLUMNS = ["r", "l", "t", "seed", "global_step"]


@final
class EpisodeFile:
    """Appends episodes to a file that Stable-Baselines3's `load_results` can also read.

    The first line contains the start time of the file, as JSON after "#". Then come the columns: `r`,
    the return of an episode; `l`, its length; `t`, the seconds since the start time; its seed; and
    `global_step`.

    Args:
        path: the file.
        last_step: the step from which the run continues; later rows of an existing file are dropped.
    """

    def __init__(self, path: Path, last_step: int) -> None:
        self._path, self._begun = path, time.time()
        prepare_lines(path)
        rows = self._rows_up_to(last_step) if path.exists() else []
        aside = path.with_name(f"{path.name}.new")
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.write(f"#{json.dumps({'t_start': self._begun, 'env_id': None})}\n")
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *rows])
        aside.replace(path)

    def append(self, episodes: Sequence[Episode], seed: int, step: int) -> None:
        """Adds episodes.

        Args:
            episodes: the episodes, in the order of their seeds.
            seed: the seed of the first one.
            step: the number of updates.
        """
        seconds = round(time.time() - self._begun, 6)
        with self._path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [each.total, each.length, seconds, seed + number, step]
                for number, each in enumerate(episodes)
            )

    def _rows_up_to(self, last_step: int) -> list[list[str]]:
        # A killed run may have left an incomplete line at the end.
        whole, _, _ = self._path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
        first, _, others = whole.partition("\n")
        begun = first.removeprefix("#")
        table = csv.reader(line for line in others.split("\n") if "\0" not in line)
        rows = [row for row in table if len(row) == len(_COLUMNS) and row[-1].isdecimal()]
        kept = [row for row in rows if int(row[-1]) <= last_step]
        if kept:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # now, if the first line is damaged
                self._begun = float(json.loads(begun)["t_start"])
        return kept


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
