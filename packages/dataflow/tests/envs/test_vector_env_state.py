"""The state of vectorised Python environments and of normalising wrappers."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers.vector import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

from towerpack_dataflow import ArgumentTypeError, StateError
from towerpack_dataflow.envs import VectorEnvState
from towerpack_dataflow.testing import check_vector_env

CARTPOLE = "CartPole-v1"


def vectorised():
    return gymnasium.make_vec(CARTPOLE, num_envs=3, vectorization_mode="vector_entry_point")


def synchronous():
    return gymnasium.make_vec(CARTPOLE, num_envs=3, vectorization_mode="sync")


def normalised():
    return NormalizeReward(NormalizeObservation(vectorised()))


def steps(envs, begin, end):
    actions = np.random.default_rng(3).integers(0, 2, (end, 3))
    return [envs.step(chosen)[:4] for chosen in actions[begin:]]


@pytest.mark.slow
@pytest.mark.parametrize("make", [vectorised, synchronous, normalised])
@pytest.mark.parametrize("done", [0, 21, 60])
def test_a_state_continues_the_same_transitions(make, done):
    envs, other = make(), make()
    envs.reset(seed=5)
    steps(envs, 0, done)
    kept = VectorEnvState(envs)
    assert kept.exact and not kept.reason
    state = json.loads(json.dumps(kept.state_dict()))
    expected = steps(envs, done, done + 60)
    VectorEnvState(other).load_state_dict(state)
    np.testing.assert_equal(steps(other, done, done + 60), expected)
    assert any((terminated | truncated).any() for _, _, terminated, truncated in expected)
    envs.close()
    other.close()


def test_a_state_of_other_environments_is_inexact_and_keeps_the_statistics():
    class Compiled(gymnasium.vector.VectorEnv):
        """Has its state in an object that nothing can look into."""

        def __init__(self):
            self.inside = memoryview(b"games")
            self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
            self.num_envs = 2
            self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,))
            self.observation_space = gymnasium.spaces.Box(0, 1, (2, 2))

        def reset(self, *, seed=None, options=None):
            return np.full((2, 2), 0.5), {}

    envs, other = NormalizeObservation(Compiled()), NormalizeObservation(Compiled())
    envs.reset()
    kept = VectorEnvState(envs)
    assert not kept.exact
    assert kept.reason == "Compiled.inside is a memoryview, a type with unknown state"
    VectorEnvState(other).load_state_dict(json.loads(json.dumps(kept.state_dict())))
    np.testing.assert_equal(vars(other.obs_rms), vars(envs.obs_rms))


def test_states_and_arguments_that_do_not_fit():
    with pytest.raises(ArgumentTypeError, match="received int"):
        VectorEnvState(3)
    envs = vectorised()
    envs.reset(seed=1)
    state = VectorEnvState(envs).state_dict()
    with pytest.raises(
        StateError, match=r"this state belongs to \['CartPoleVectorEnv'\], but was loaded into"
    ):
        VectorEnvState(NormalizeReward(envs)).load_state_dict(state)
    with pytest.raises(StateError, match="an attribute 'old'"):
        VectorEnvState(envs).load_state_dict({**state, "envs": {"old": 1}})


@pytest.mark.slow
def test_a_vectorised_environment_passes_the_check_in_its_one_mode():
    check_vector_env(lambda mode: vectorised(), modes=["NextStep"])
    assert not VectorEnvState(RecordEpisodeStatistics(vectorised())).reason
