"""Seeded episodes during a training: their statistics, their file, and the best weights."""

import csv
import sys

import numpy as np
import pytest

from towerpack_callbacks import MaxSaver, ModelSaver
from towerpack_dataflow.replay import RolloutBuffer
from towerpack_trainers import ConfigError, TrainConfig, fast_dev_run
from towerpack_trainers.distributed import MissingExtraError
from towerpack_trainers.rl import PolicyEvaluator, PPOTrainer, play_episodes

COLUMNS = ["r", "l", "t", "seed", "global_step"]


@pytest.fixture
def config_of(walks, walker, tmp_path):
    """Makes the configuration of a training, and a function that makes its trainer."""

    def make(callbacks, max_epoch=2, **more):
        envs = walks()
        config = TrainConfig(
            model=walker.of(envs),
            callbacks=callbacks,
            max_epoch=max_epoch,
            log_dir=tmp_path / "log",
            seed=3,
            **more,
        )
        rollout = RolloutBuffer(envs.single_observation_space, envs.single_action_space, 8, 4, seed=1)
        return config, lambda config: PPOTrainer(config, envs, rollout, batch_size=16, epochs=2)

    return make


def right(observations):
    return np.ones(len(observations), np.int64)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_episodes_depend_only_on_their_seeds(walks, one_walk, mode):
    together = play_episodes(walks(4, mode), right, 10, seed=5)
    alone = [play_episodes(one_walk(), right, 1, seed=5 + number)[0] for number in range(10)]
    assert together == alone
    assert len({episode.length for episode in alone}) > 1


def test_a_single_environment_is_reset_once_for_each_episode(one_walk):
    env = one_walk()
    play_episodes(env, right, 3, seed=5)
    assert env.seeds == [5, 6, 7]


def test_an_endless_episode_is_truncated(walks, caplog):
    endless = walks(2, limit=10**9)
    stay = iter([0, 1] * 50)
    episodes = play_episodes(endless, lambda seen: np.full(len(seen), next(stay)), 2, seed=4, max_steps=20)
    assert [episode.length for episode in episodes] == [20, 20]
    assert "2 of 2 episodes had not ended after 20 steps" in caplog.text


@pytest.mark.parametrize("wrong", [{"episodes": 0}, {"max_steps": 0}, {"seed": -1}])
def test_wrong_arguments(wrong):
    with pytest.raises(ConfigError, match=f"PolicyEvaluator\\({next(iter(wrong))}="):
        PolicyEvaluator(lambda: None, **wrong)
    with pytest.raises(TypeError, match=r"PolicyEvaluator\(make_env=...\) takes a function"):
        PolicyEvaluator("CartPole-v1")


def test_objects_that_are_not_environments_are_refused():
    with pytest.raises(ConfigError, match="received 3"):
        play_episodes(3, right, 1, seed=0)


@pytest.mark.slow
def test_statistics_a_file_and_the_best_weights(config_of, walks, tmp_path):
    made = []
    evaluator = PolicyEvaluator(lambda: made.append(walks(3)) or made[-1], episodes=5, seed=50)
    config, trainer_of = config_of([evaluator, MaxSaver("evaluation_mean_return")], max_epoch=3)
    trainer = trainer_of(config)
    trainer.train()
    returns = trainer.monitors.get_history("evaluation_mean_return")
    assert len(returns) == 3
    with (tmp_path / "log" / "evaluation.monitor.csv").open() as file:
        assert file.readline().startswith('#{"t_start": ')
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    assert [row["seed"] for row in rows] == ["50", "51", "52", "53", "54"] * 3
    last = np.array([float(row["r"]) for row in rows[-5:]])
    assert evaluator.headlines() == ["evaluation_mean_return"]
    assert trainer.monitors.get_latest("evaluation_std_return") == pytest.approx(last.std())
    assert (returns[-1][1], trainer.monitors.get_latest("evaluation_episodes")) == (last.mean(), 5)
    assert (tmp_path / "log" / "max-evaluation_mean_return").exists()
    assert made[0].closed


@pytest.mark.slow
def test_a_dry_run_evaluates_a_few_steps(config_of, walks):
    env = walks(1, limit=10**9)
    config, trainer_of = config_of([PolicyEvaluator(lambda: env)])
    trainer_of(fast_dev_run(config)).train()
    assert 0 < env.steps <= 2


@pytest.mark.slow
def test_a_resumed_run_drops_the_episodes_that_it_repeats(config_of, walks, tmp_path):
    def callbacks():
        return [ModelSaver(), PolicyEvaluator(walks, episodes=4)]

    config, trainer_of = config_of(callbacks(), max_epoch=2)
    trainer_of(config).train()
    file = tmp_path / "log" / "evaluation.monitor.csv"
    first = file.read_text().splitlines()
    file.write_text(
        "\n".join(first) + "\n1.0,3,0.5,10000,999999\n1.0,3,0.5,10000,1"
    )  # the last is half a line
    config, trainer_of = config_of(callbacks(), max_epoch=3, resume="auto")
    trainer_of(config).train()
    lines = file.read_text().splitlines()
    assert lines[: len(first)] == first
    assert len(lines) == len(first) + 4


@pytest.mark.slow
def test_a_video_needs_an_extra(config_of, one_walk, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", None)
    env = one_walk()
    config, trainer_of = config_of([PolicyEvaluator(lambda: env, video_dir=tmp_path / "video")])
    with pytest.raises(MissingExtraError, match=r"towerpack-trainers\[video\]"):
        trainer_of(config).train()
    assert env.closed
