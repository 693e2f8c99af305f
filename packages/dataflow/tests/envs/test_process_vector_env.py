"""Environments in worker processes yield the same results as alone, and resume exactly from a state."""

import json
import subprocess
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from towerpack_dataflow import ArgumentError, EnvCallError, StateError
from towerpack_dataflow.envs import ProcessVectorEnv, VectorEnvState, episode_seed
from towerpack_dataflow.testing import ConformanceError, check_vector_env

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def cartpole():
    return gymnasium.make("CartPole-v1")


class Parts(gymnasium.Env):
    """Observations of two parts, with infos; ends after five steps, by turns as terminated and truncated."""

    observation_space = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(9)])})
    action_space = spaces.Dict({"go": spaces.Discrete(3), "by": spaces.Box(-1, 1, (2,), np.float64)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.start = 0, (options or {}).get("start", 0)
        return self.observed(), {"drawn": float(self.np_random.random())}

    def step(self, action):
        self.steps += 1
        over = self.steps == 5
        odd = bool(action["go"] % 2)
        info = {"steps": self.steps, "more": {"sum": action["by"].sum()}} if self.steps % 2 else {}
        return self.observed(), float(action["by"].sum()), over and odd, over and not odd, info

    def observed(self):
        a = self.np_random.random(2).astype(np.float32)
        return {"a": a, "b": (int(self.start + self.steps) % 9,)}


def batches(envs, count, begin=0):
    """Takes steps with actions that depend on the number of the step alone."""
    rng = np.random.default_rng(5)
    actions = rng.integers(0, 2, (begin + count, envs.num_envs))
    return [envs.step(chosen) for chosen in actions[begin:]]


def assert_same(ones, others):
    assert len(ones) == len(others)
    for one, other in zip(ones, others):
        for first, second in zip(one[:4], other[:4]):
            np.testing.assert_array_equal(first, second, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("make", [cartpole, pytest.param(Parts, marks=pytest.mark.long)])
def test_every_mode_gives_the_transitions_of_single_environments(make):
    def vector(mode):
        return ProcessVectorEnv([make] * 3, num_workers=2, autoreset_mode=mode)

    check_vector_env(vector, make, steps=60, episode_seed=episode_seed)


@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
def test_gymnasiums_own_pass_the_check(kind):
    check_vector_env(lambda mode: kind([cartpole] * 2, autoreset_mode=mode), cartpole, steps=60)


def test_infos_are_those_of_gymnasium():
    both = []
    for autoreset in ("NextStep", "SameStep"):
        ours = ProcessVectorEnv([Parts] * 3, num_workers=2, seed=3, autoreset_mode=autoreset)
        theirs = gymnasium.vector.SyncVectorEnv([Parts] * 3, autoreset_mode=autoreset)
        seeds = [episode_seed(3, env, 0) for env in range(3)]
        both.append((ours.reset(), theirs.reset(seed=seeds)))
        theirs.action_space.seed(1)
        for _ in range(5):
            actions = theirs.action_space.sample()
            both.append((ours.step(actions), theirs.step(actions)))
        ours.close()
    for one, other in both:
        assert one[-1].keys() == other[-1].keys()
        for key, value in other[-1].items():
            if key in {"drawn", "_drawn"} and "final_obs" in other[-1]:
                continue  # of the next episode, for which gymnasium defines no seed
            plain = not isinstance(value, np.ndarray) or value.dtype != object
            np.testing.assert_equal(*((one[-1][key], value) if plain else (list(one[-1][key]), list(value))))
    assert any("final_info" in one[-1] for one, _ in both)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_state_continues_bit_for_bit_in_another_process(mode, tmp_path):
    envs = ProcessVectorEnv([cartpole] * 3, num_workers=2, seed=11, autoreset_mode=mode)
    envs.reset()
    batches(envs, 40)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(envs.state_dict()))
    newest, expected = envs.observations, batches(envs, 40, 40)
    envs.close()
    code = (
        "import json, sys, gymnasium, numpy as np\n"
        "from towerpack_dataflow.envs import ProcessVectorEnv\n"
        f"make = [lambda: gymnasium.make('CartPole-v1')] * 3\n"
        f"envs = ProcessVectorEnv(make, num_workers=1, autoreset_mode={mode!r})\n"
        f"envs.load_state_dict(json.load(open({str(file)!r})))\n"
        "actions = np.random.default_rng(5).integers(0, 2, (80, 3))[40:]\n"
        "found = {'newest': envs.observations}\n"
        "for at, chosen in enumerate(actions):\n"
        "    for name, part in zip('orut', envs.step(chosen)): found[f'{at}{name}'] = part\n"
        f"np.savez({str(tmp_path / 'found.npz')!r}, **found); envs.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["newest"], newest, strict=True)
        resumed = [tuple(found[f"{at}{name}"] for name in "orut") for at in range(40)]
    assert_same(resumed, expected)


def test_a_state_keeps_options_steps_under_way_and_disabled_resets():
    envs = ProcessVectorEnv([Parts] * 2, num_workers=1, seed=4, autoreset_mode="Disabled")
    other = ProcessVectorEnv([Parts] * 2, num_workers=2, autoreset_mode="Disabled")
    envs.reset(options={"start": 3})
    envs.action_space.seed(2)
    for _ in range(4):
        envs.step(envs.action_space.sample())
    envs.send(envs.action_space.sample())
    other.load_state_dict(json.loads(json.dumps(envs.state_dict())))
    first, second = envs.recv(), other.recv()
    np.testing.assert_equal(second, first)
    assert first[0]["b"][0].tolist() == [8, 8]
    assert (first[2] | first[3]).all()
    other.load_state_dict(envs.state_dict())
    with pytest.raises(EnvCallError, match=r"episodes of environments \[0, 1\] have ended.*reset_mask"):
        other.step(other.action_space.sample())
    mask = {"reset_mask": np.array([False, True])}
    np.testing.assert_equal(other.reset(options=dict(mask)), envs.reset(options=dict(mask)))
    envs.close()
    other.close()


def test_the_first_ready_come_first_and_resume():
    envs = ProcessVectorEnv([cartpole] * 5, num_workers=2, batch_size=2, seed=1)
    envs.reset()
    envs.send(np.zeros(5, np.int64))
    totals = np.zeros(5)
    for _ in range(30):
        observations, rewards, _, _, infos = envs.recv()
        assert observations.shape == (2, 4) and len(set(infos["env_id"].tolist())) == 2
        totals[infos["env_id"]] += rewards
        envs.send(np.zeros(2, np.int64))
    assert totals.sum() > 30
    state = envs.state_dict()
    again = ProcessVectorEnv([cartpole] * 5, num_workers=1, batch_size=2)
    again.load_state_dict(state)
    found = [{}, {}]
    for copy, seen in zip((envs, again), found):
        for _ in range(2):
            observations, rewards, _, _, infos = copy.recv()
            seen.update(zip(infos["env_id"].tolist(), zip(observations.tolist(), rewards)))
    shared = found[0].keys() & found[1].keys()
    assert shared and all(found[0][env] == found[1][env] for env in shared)
    envs.close()
    again.close()


def test_the_results_of_a_step_are_not_overwritten():
    class Pixels(gymnasium.Env):
        observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return np.zeros((84, 84, 4), np.uint8), {}

        def step(self, action):
            self.steps += 1
            return np.full((84, 84, 4), self.steps, np.uint8), 0.0, False, False, {}

    envs = ProcessVectorEnv([Pixels] * 4, num_workers=2)
    kept = [envs.reset()[0]] + [envs.step(np.zeros(4, np.int64))[0] for _ in range(5)]
    assert [int(one.min()) for one in kept] == [int(one.max()) for one in kept] == [0, 1, 2, 3, 4, 5]
    assert envs.get_attr("steps") == (5,) * 4
    envs.set_attr("steps", [1, 2, 3, 4])
    assert envs.call("get_wrapper_attr", "steps") == (1, 2, 3, 4)
    envs.close()
    with pytest.raises(EnvCallError, match=r"no workers any more: close\(\) was called"):
        envs.step(np.zeros(4, np.int64))


def test_arguments_and_calls_out_of_turn():
    with pytest.raises(ArgumentError, match="make_envs is a list of functions"):
        ProcessVectorEnv([])
    with pytest.raises(ArgumentError, match="at most the 2 environments"):
        ProcessVectorEnv([cartpole] * 2, batch_size=3)
    with pytest.raises(ArgumentError, match="autoreset_mode is one of"):
        ProcessVectorEnv([cartpole], autoreset_mode="later")
    envs = ProcessVectorEnv([cartpole] * 2, num_workers=1)
    with pytest.raises(EnvCallError, match=r"after reset\(\)"):
        envs.step([0, 1])
    envs.reset(seed=[1, None])
    for actions, text in (([0, 1, 1], r"shape \(3,\); expected \(2,\)"), ([0.5, 1.0], "dtype float64")):
        with pytest.raises(ArgumentError, match=text):
            envs.step(actions)
    envs.send([0, 1])
    with pytest.raises(EnvCallError, match="2 environments have a step in progress"):
        envs.reset()
    with pytest.raises(EnvCallError, match=r"send\(\) was called twice"):
        envs.send([0, 1])
    envs.recv()
    with pytest.raises(EnvCallError, match=r"call send\(\) first"):
        envs.recv()
    with pytest.raises(ArgumentError, match="reset_mask"):
        envs.reset(options={"reset_mask": [True]})
    other = {**envs.state_dict(), "autoreset_mode": "SameStep"}
    with pytest.raises(StateError, match="autoreset_mode SameStep in the state, NextStep here"):
        envs.load_state_dict(other)
    assert VectorEnvState(envs).exact
    envs.close()


def test_the_check_finds_a_reset_that_shows():
    class Early(gymnasium.vector.SyncVectorEnv):
        """Gives the first observation of the next episode as the last one of this."""

        def step(self, actions):
            *made, infos = super().step(actions)
            if "final_obs" in infos:
                infos["final_obs"] = np.array([*made[0], None], dtype=object)[:-1]
            return *made, infos

    with pytest.raises(ConformanceError, match="mode SameStep compared with mode NextStep: 'after'"):
        check_vector_env(lambda mode: Early([cartpole] * 2, autoreset_mode=mode), cartpole)
    with pytest.raises(ConformanceError, match="was created with 'SameStep'"):
        check_vector_env(lambda mode: gymnasium.vector.SyncVectorEnv([cartpole]), modes=["SameStep"])
    with pytest.raises(ConformanceError, match="no episode ended in 3 steps"):
        check_vector_env(lambda mode: Early([cartpole], autoreset_mode=mode), steps=3)
