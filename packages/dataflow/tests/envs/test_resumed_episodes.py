"""A state continues only in environments of the same kind, and only if they repeat their results."""

import itertools
import json
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from towerpack_dataflow import ArgumentError, EnvCallError, EnvError, StateError
from towerpack_dataflow.envs import ProcessVectorEnv, VectorEnvState

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ELSEWHERE = itertools.count()  # stands for a clock, a server, a global generator
PLACES = ["reset", "observation", "reward", "terminated", "truncated"]


class Walk(gymnasium.Env):
    """Depends on its seed and its actions, and in one place on something else, too."""

    observation_space = spaces.Dict({"at": spaces.Box(-99, 99, (2,), np.float64), "n": spaces.Discrete(99)})
    action_space = spaces.Discrete(2)

    def __init__(self, hidden="", size=1):
        self.hidden, self.size = hidden, size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.n = self.np_random.random(2) + self.other("reset"), 0
        return self.observed(), {}

    def step(self, action):
        self.at, self.n = self.at + self.size * (action - 0.5), self.n + 1
        ends = [bool(self.other(name)) and self.n == 4 for name in ("terminated", "truncated")]
        return self.observed(), float(action) + self.other("reward"), *ends, {"any": next(ELSEWHERE)}

    def observed(self):
        return {"at": self.at + self.other("observation"), "n": self.n}

    def other(self, name):
        return 1 + next(ELSEWHERE) if name == self.hidden else 0


def running(makes, count=0, **settings):
    envs = ProcessVectorEnv(makes, num_workers=1, **{"seed": 3, "start_method": "fork", **settings})
    envs.reset()
    for _ in range(count):
        envs.step(np.ones(envs.num_envs, np.int64))
    return envs


def state_of(envs):
    return json.loads(json.dumps(envs.state_dict()))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("hidden", PLACES)
def test_an_environment_that_does_not_repeat_its_episode_is_refused(hidden, mode):
    makes = [Walk, lambda: Walk(hidden), Walk]
    envs = running(makes, 3, autoreset_mode=mode)
    state = state_of(envs)
    if hidden in {"terminated", "truncated"}:  # which are looked at in the fourth step
        envs.step(np.ones(3, np.int64))
        state["digests"][1] ^= 1
    with pytest.raises(
        StateError, match=r"environment 1 is in another state.*step 2 of episode 0.*exact=False"
    ):
        envs.load_state_dict(state)
    with pytest.raises(EnvCallError, match=r"after reset\(\)"):
        envs.step(np.ones(3, np.int64))
    envs.reset()
    envs.step(np.ones(3, np.int64))
    envs.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_one_that_does_is_continued_with_steps_under_way(count, mode):
    envs = running([lambda: gymnasium.wrappers.TimeLimit(Walk(), 2)] * 2, min(count, 2), autoreset_mode=mode)
    if mode != "Disabled":
        envs.send(np.zeros(2, np.int64))
    state = state_of(envs)
    again = running([lambda: gymnasium.wrappers.TimeLimit(Walk(), 2)] * 2, 1, autoreset_mode=mode)
    if again.autoreset_mode.value != "Disabled":
        again.step(np.zeros(2, np.int64))
    again.load_state_dict(state)
    assert state_of(again) == state
    if mode != "Disabled":
        np.testing.assert_equal(again.recv()[:4], envs.recv()[:4])
    envs.close()
    again.close()


def cartpole(**arguments):
    return lambda: gymnasium.make("CartPole-v1", **arguments)


@pytest.mark.parametrize(
    ("makes", "text"),
    [
        ([Walk, cartpole()], "all environments of a"),
        ([cartpole()] * 3, "number of environments 2 in the state, 3 here"),
        (
            [cartpole(sutton_barto_reward=True)] * 2,
            r"environment 0 .*sutton_barto_reward=False.* in the state",
        ),
        ([cartpole(max_episode_steps=9), cartpole()], "environment 0 .*max_episode_steps=9"),
        ([lambda: gymnasium.make("CartPole-v0")] * 2, "environment 0 .*CartPole-v1.*CartPole-v0"),
        ([lambda: gymnasium.make("Acrobot-v1")] * 2, "observation space"),
        ([lambda: gymnasium.wrappers.TimeAwareObservation(cartpole()())] * 2, "observation space"),
        ([lambda: gymnasium.wrappers.TransformReward(cartpole()(), float)] * 2, "TransformReward"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is out of date")
def test_a_state_of_other_environments_is_refused(makes, text):
    envs = running([cartpole(sutton_barto_reward=False)] * 2)
    state = state_of(envs)
    envs.close()
    with pytest.raises((StateError, EnvError), match=text):
        other = running(makes)
        try:
            other.load_state_dict(state)
        finally:
            other.close()


def test_other_seeds_orders_and_ways_to_render_belong_to_the_state():
    envs = running([lambda: Walk(size=1), lambda: Walk(size=2)], 3, seed=5)
    state = state_of(envs)
    same = running([lambda: Walk(size=1), lambda: Walk(size=2)], seed=6)
    same.load_state_dict(state)
    np.testing.assert_equal(same.step([0, 1])[:4], envs.step([0, 1])[:4])
    swapped = running([lambda: Walk(size=2), lambda: Walk(size=1)], seed=5)
    with pytest.raises(StateError, match=r"environment 0 is in another state.*and 1 more environments"):
        swapped.load_state_dict(state)
    first = running([cartpole()])
    shown = running([cartpole(render_mode="rgb_array")])
    shown.load_state_dict(state_of(first))
    for each in (envs, same, swapped, first, shown):
        each.close()


def test_a_state_of_an_earlier_release_is_continued_with_a_word(caplog):
    envs = running([Walk], 2)
    state = state_of(envs)
    for name in ("digests", "environments", "observation_space"):
        del state[name]
    envs.load_state_dict(state)
    assert "without a digest" in caplog.text and state_of(envs)["episodes"] == [0]
    envs.close()


def test_environments_that_cannot_repeat_continue_with_new_episodes():
    makes = [lambda: Walk("observation")]
    exact, inexact = running(makes, 2), running(makes, 2, exact=False)
    assert exact.exact and not inexact.exact and "exact=False" in VectorEnvState(inexact).reason
    inexact.load_state_dict(state_of(exact))
    with pytest.raises(EnvCallError, match=r"after reset\(\)"):
        inexact.step([1])
    inexact.reset()
    assert inexact.state_dict()["episodes"] == [1] and inexact.state_dict()["actions"] is None
    with pytest.raises(StateError, match="was taken with exact=False"):
        exact.load_state_dict(state_of(inexact))
    exact.close()
    inexact.close()


@pytest.mark.parametrize("hidden", ["", "reset", "observation", "reward"])
def test_an_object_that_depends_on_more_than_its_attributes_is_refused(hidden):
    def make(count=2, **arguments):
        return gymnasium.vector.SyncVectorEnv([lambda: Walk(hidden, **arguments)] * count)

    envs = make()
    untouched = VectorEnvState(envs).state_dict()
    envs.reset(seed=1)
    envs.step([0, 1])
    state = json.loads(json.dumps(VectorEnvState(envs).state_dict()))
    with pytest.raises(StateError, match="number of environments 2 in the state, 3 here"):
        VectorEnvState(make(3)).load_state_dict(state)
    again = make()
    if hidden:
        with pytest.raises(
            StateError, match=r"SyncVectorEnv does not repeat a .* a global generator or a clock"
        ):
            VectorEnvState(again).load_state_dict(state)
        return
    VectorEnvState(again).load_state_dict(state)
    np.testing.assert_equal(again.step([1, 1])[:4], envs.step([1, 1])[:4])
    VectorEnvState(again).load_state_dict(untouched)


def test_a_vectorised_environment_with_other_arguments_is_refused():
    def make(**arguments):
        return gymnasium.make_vec(
            "CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point", **arguments
        )

    envs = make()
    envs.reset(seed=1)
    with pytest.raises(StateError, match="sutton_barto_reward=True"):
        VectorEnvState(make(sutton_barto_reward=True)).load_state_dict(VectorEnvState(envs).state_dict())


@pytest.mark.parametrize(
    ("space", "given", "text"),
    [
        (spaces.MultiBinary(2), [[0, 300]], "300.*expected numbers that int8 can represent"),
        (
            spaces.MultiDiscrete([3, 3], dtype=np.int32),
            [[0, 2**32]],
            "4294967296.*expected numbers that int32 can represent",
        ),
        (
            spaces.Box(-1, 1, (1,), np.float32),
            [[2**24 + 1]],
            "16777217.*expected numbers that float32 can represent",
        ),
        (spaces.Box(-1, 1, (1,), np.float32), [[1e300]], "expected numbers that float32 can represent"),
        (spaces.Box(0, 9, (1,), np.uint8), [[-1]], "expected numbers that uint8 can represent"),
        (spaces.Box(0, 9, (1,), np.uint8), [[0.5]], "dtype float64; expected uint8"),
    ],
)
def test_actions_do_not_change_on_their_way(space, given, text):
    class Acts(Walk):
        action_space = space
        observation_space = spaces.Box(-9, 9, (1,), np.float64)

        def step(self, action):
            return self.observed(), 0.0, False, False, {"action": action.copy(), "dtype": str(action.dtype)}

        def observed(self):
            return np.zeros(1)

    envs = running([Acts])
    with pytest.raises(ArgumentError, match=text):
        envs.step(np.array(given))
    space.seed(0)
    action = space.sample()
    infos = envs.step(action[None].astype(np.float64 if space.dtype.kind == "f" else np.int64))[-1]
    np.testing.assert_array_equal(infos["action"][0], action)
    assert infos["dtype"][0] == str(space.dtype)
    envs.close()


@pytest.mark.parametrize("start", [-3, 0, 2**40])
def test_actions_of_a_discrete_space_are_its_own_numbers(start):
    class Acts(Walk):
        action_space = spaces.Discrete(3, start=start)

        def step(self, action):
            return self.observed(), float(action - start), False, False, {}

    envs = running([Acts] * 3)
    assert envs.step(np.arange(start, start + 3))[1].tolist() == [0, 1, 2]
    envs.close()


@pytest.mark.parametrize(
    ("reward", "fits"), [(2**53, True), (2**53 + 1, False), ("1.5", False), (np.float16(0.1), True)]
)
def test_a_reward_must_be_exact_in_float64(reward, fits):
    class Pays(Walk):
        def step(self, action):
            return *super().step(action)[:1], reward, False, False, {}

    envs = running([Pays])
    if fits:
        assert envs.step([0])[1][0] == reward
    else:
        with pytest.raises(EnvError, match="a number that float64 holds exactly"):
            envs.step([0])
    envs.close()
