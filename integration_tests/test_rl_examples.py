"""The examples of agents: short trainings, and that acting at random reaches no goal."""

import dataclasses
import json

import attrs
import cloudpickle
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")


# The others need games that these tests do without: the table of agents acts in them at random.
ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1"]


def change_settings(monkeypatch, trainings, env, changed=None, **settings):
    """Changes the settings of an agent, and other parts of its training."""
    training = trainings[env]
    settings = attrs.evolve(training.settings, **settings)
    monkeypatch.setitem(trainings, env, dataclasses.replace(training, settings=settings, **(changed or {})))


@pytest.mark.slow
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_acting_at_random_reaches_no_goal(rl_example, tmp_path, env):
    rl_example("at_random").act(env, 0, tmp_path)
    assert not json.loads((tmp_path / "result.json").read_text())["passed"]


def test_a_rom_that_is_missing(rl_example):
    pytest.importorskip("ale_py")
    with pytest.raises(gymnasium.error.NameNotFound, match=r"no ROM 'nogame'. It has: .*pong"):
        rl_example("evaluation").make_envs("Nogame", 1)


@pytest.mark.slow
def test_a_short_training_by_ppo_and_its_player(rl_example, monkeypatch, tmp_path, capsys):
    ppo, play = rl_example("ppo"), rl_example("play")
    change_settings(monkeypatch, ppo.TRAININGS, "CartPole-v1", env_steps=10_000)
    ppo.train("CartPole-v1", 3, tmp_path / "log")
    line = capsys.readouterr().out.splitlines()[-1]
    result = json.loads((tmp_path / "log" / "result.json").read_text())
    assert (result["seed"], len(result["returns"])) == (3, 100)
    assert (
        line
        == f"mean return {np.mean(result['returns']):.1f} ± {np.std(result['returns']):.1f} over 100 episodes"
    )
    assert np.mean(result["returns"]) > 100
    monkeypatch.setattr("sys.argv", ["play.py", str(tmp_path / "log")])
    play.main()
    assert capsys.readouterr().out.splitlines()[-1] == line


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Acrobot-v1", "Pendulum-v1"])
def test_the_settings_of_other_environments_train(rl_example, monkeypatch, tmp_path, env):
    ppo = rl_example("ppo")
    small = {"env_steps": 10 * ppo.TRAININGS[env].settings.environments * 8, "steps": 8, "batch_size": 32}
    change_settings(monkeypatch, ppo.TRAININGS, env, {"evaluate": 2}, **small)
    monkeypatch.setattr(rl_example("evaluation"), "TESTS", 2)
    ppo.train(env, 0, tmp_path / "log")
    assert len(json.loads((tmp_path / "log" / "result.json").read_text())["returns"]) == 2


@pytest.mark.long
@pytest.mark.slow
def test_a_short_training_by_dqn(rl_example, monkeypatch, tmp_path, capsys):
    dqn = rl_example("dqn")
    small = {"goal": float("inf"), "evaluate": 10}
    change_settings(monkeypatch, dqn.TRAININGS, "CartPole-v1", small, env_steps=4_000)
    monkeypatch.setattr(dqn, "EVALUATIONS", 2)
    dqn.train("CartPole-v1", 3, tmp_path / "log")
    result = json.loads((tmp_path / "log" / "result.json").read_text())
    assert (result["script"], len(result["returns"])) == ("dqn", 100)
    assert np.mean(result["returns"]) > 50
    assert capsys.readouterr().out.splitlines()[-1].endswith("over 100 episodes")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_training_by_simulators(rl_example, monkeypatch, tmp_path, capsys):
    batch_a3c = rl_example("batch_a3c")
    small = {"simulators": 1, "goal": float("inf"), "evaluate": 5}
    monkeypatch.setitem(
        batch_a3c.SETTINGS, "CartPole-v1", dataclasses.replace(batch_a3c.SETTINGS["CartPole-v1"], **small)
    )
    cloudpickle.register_pickle_by_value(batch_a3c)  # simulators need not import it, and TensorFlow with it
    try:
        batch_a3c.train("CartPole-v1", 3, tmp_path / "log", updates=240)
    finally:
        cloudpickle.unregister_pickle_by_value(batch_a3c)
    result = json.loads((tmp_path / "log" / "result.json").read_text())
    assert (result["script"], len(result["returns"])) == ("batch_a3c", 100)
    assert np.mean(result["returns"]) > 40
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith("over 100 episodes")
    assert any("predictions/s, " in line and line.endswith("frames/s") for line in lines)
