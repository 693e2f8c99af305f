"""The results of a step in all autoreset modes; groups of environments; invalid results."""

from collections import defaultdict

import numpy as np
import pytest

from towerpack_dataflow.replay import RolloutBuffer
from towerpack_trainers import ConfigError, EnvironmentStepError
from towerpack_trainers.rl._environments import FinishedEpisodes, GroupedSteps

MODES = ["NextStep", "SameStep", "Disabled"]
STEPS = 40


def script(number, time):
    """The action of an environment at its own step."""
    return (number + time // 3 + time * time % 5) % 2


class Played:
    """Steps environments by a script, and records the observations and advantages of each."""

    def __init__(self, envs):
        steps = GroupedSteps(envs)
        steps.reset(7)
        rollout = RolloutBuffer(((2,), "float32"), ((), "int64"), STEPS, steps.num_envs, seed=0)
        self.seen, times, self.episodes = defaultdict(list), np.zeros(steps.num_envs, int), steps.episodes
        for _ in range(STEPS):
            observation = steps.observation
            action = np.array([script(number, time) for number, time in enumerate(times)])
            steps.send(action)
            happened = steps.receive()
            rollout.add(
                observation,
                action,
                happened.reward,
                happened.terminated,
                happened.truncated,
                value=value_of(observation),
                # The numbers of environment and step, to find the step again.
                log_probability=np.arange(steps.num_envs) * 1000.0 + times,
                truncation_value=None if steps.resets_by_next_step else value_of(happened.next_observation),
                valid=happened.valid,
            )
            for number in np.flatnonzero(happened.valid):
                row = (observation, action, *happened[:3], happened.next_observation)
                self.seen[number].append([each[number].tolist() for each in row])
            times += happened.valid
        rollout.finish(value_of(steps.observation))
        [batch] = rollout.minibatches(STEPS * steps.num_envs)
        self.advantages = dict(zip(batch.log_probability.tolist(), batch.advantage.tolist()))


def value_of(observation):
    return observation @ np.float32([0.7, -0.3])


def test_transitions_and_advantages_are_the_same_in_all_autoreset_modes(walks):
    next_step, same_step, disabled = (Played(walks(4, mode)) for mode in MODES)
    for number, expected in same_step.seen.items():
        ends = [time for time, row in enumerate(expected) if row[3] or row[4]]
        assert {row[4] for row in expected} == {row[3] for row in expected} == {False, True}
        assert disabled.seen[number] == expected
        seen = next_step.seen[number]
        assert seen == expected[: len(seen)]
        whole = [time for time in range(len(seen)) if any(time <= end < len(seen) for end in ends)]
        for time in whole:
            key = number * 1000.0 + time
            assert disabled.advantages[key] == same_step.advantages[key]
            assert next_step.advantages[key] == pytest.approx(same_step.advantages[key], rel=1e-5)


def test_returns_of_episodes(walks):
    played = Played(walks(2))
    expected = []
    for rows in played.seen.values():
        total = 0.0
        for row in rows:
            total += row[2]
            if row[3] or row[4]:
                expected.append(total)
                total = 0.0
    assert sorted(episode.total for episode in played.episodes.last) == pytest.approx(sorted(expected))


class Sending:
    """Environments with asynchronous steps that record the order of calls."""

    def __init__(self, envs, calls, name):
        self._envs, self._calls, self._name = envs, calls, name

    def __getattr__(self, name):
        return getattr(self._envs, name)

    def send(self, actions):
        self._calls.append(f"send {self._name}")
        self._result = self._envs.step(actions)

    def recv(self):
        self._calls.append(f"receive {self._name}")
        return self._result


@pytest.mark.parametrize("mode", MODES)
def test_groups_equal_one_environment(walks, mode):
    together = Played(walks(4, mode))
    calls = []
    first, second = walks(3, mode), walks(1, mode)
    apart = Played([Sending(first, calls, "a"), Sending(second, calls, "b")])
    assert apart.seen == together.seen
    assert apart.advantages == together.advantages
    assert calls[:4] == ["send a", "send b", "receive a", "receive b"]


class InOneMemory:
    """Environments that write all observations to one array, as gymnasium's do with `copy=False`."""

    def __init__(self, envs, also_of_reset):
        self._envs, self._also_of_reset = envs, also_of_reset
        self._memory = np.zeros([envs.num_envs, 2], np.float32)

    def __getattr__(self, name):
        return getattr(self._envs, name)

    def reset(self, **arguments):
        observation, infos = self._envs.reset(**arguments)
        return self._written(observation) if self._also_of_reset else observation, infos

    def step(self, actions):
        observation, *others = self._envs.step(actions)
        return self._written(observation), *others

    def _written(self, observation):
        self._memory[:] = observation
        return self._memory


@pytest.mark.parametrize("also_of_reset", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_observations_may_be_overwritten_by_the_next_step(walks, mode, also_of_reset):
    played, expected = Played(InOneMemory(walks(4, mode), also_of_reset)), Played(walks(4, mode))
    assert played.seen == expected.seen and played.advantages == expected.advantages


def test_groups_must_be_equal(walks, discrete):
    other = walks()
    other.single_action_space = discrete(3)
    with pytest.raises(ConfigError, match=r"same spaces and autoreset mode; received .*3"):
        GroupedSteps([walks(), other])
    with pytest.raises(ConfigError, match="SAME_STEP"):
        GroupedSteps([walks(), walks(mode="SameStep")])
    with pytest.raises(ConfigError, match="envs="):
        GroupedSteps([])
    with pytest.raises(ConfigError, match="autoreset mode 'Never'"):
        GroupedSteps(walks(mode="Never"))


def faulty(walks, change, mode="NextStep", at=3):
    """Environments with a changed step `at`; returns the steps before it."""

    class Faulty(walks):
        def step(self, actions):
            result = list(super().step(actions))
            return change(result) if self.steps == at else result

    steps = GroupedSteps(Faulty(4, mode))
    steps.reset(0)
    for _ in range(at - 1):
        steps.send(np.ones(4, int))
        steps.receive()
    steps.send(np.ones(4, int))
    return steps


def put(place, value):
    def change(result):
        result[place] = value
        return result

    return change


def fail(result):
    raise KeyError("joint 7")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put(1, np.array([0, 0, np.nan, 0])), "Environment 2, step 3: the reward is nan"),
        (put(1, np.zeros(3)), r"Step 3: .* rewards of shape \(3,\); expected one for each of 4"),
        (put(0, np.zeros((4, 3), np.float32)), r"Step 3: .* observations of shape \(4, 3\) .*; .* \(4, 2\)"),
        (put(0, np.zeros((4, 2), np.complex64)), "Step 3: .* dtype complex64; .* float32"),
        (put(2, np.zeros(4)), "Step 3: .* terminated of shape .* float64"),
        (put(3, np.zeros((4, 1), bool)), "Step 3: .* truncated of shape"),
        (fail, r"One of 4 environments of Faulty failed in step 3: KeyError: 'joint 7'"),
        (lambda result: result[:4], "failed in step 3: ValueError"),
    ],
)
def test_invalid_results_name_environment_and_step(walks, change, text):
    steps = faulty(walks, change)
    with pytest.raises(EnvironmentStepError, match=text):
        steps.receive()


def test_a_missing_last_observation(walks):
    class Forgets(walks):
        def step(self, actions):
            return (*super().step(actions)[:4], {})

    steps = GroupedSteps(Forgets(2, "SameStep"))
    steps.reset(0)
    with pytest.raises(EnvironmentStepError, match=r'Environment \d, step \d: .* have no "final_obs"'):
        for _ in range(9):
            steps.send(np.ones(2, int))
            steps.receive()


def test_a_failed_reset(walks):
    class Broken(walks):
        def reset(self, **arguments):
            raise OSError("no ROM")

    with pytest.raises(EnvironmentStepError, match="failed in reset before step 1: OSError: no ROM"):
        GroupedSteps(Broken()).reset(0)


def test_a_group_with_new_episodes_counts_from_there():
    episodes = FinishedEpisodes(3)
    none, all_ = np.zeros(3, bool), np.ones(3, bool)
    episodes.count(np.float64([1, 2, 3]), none, all_)
    episodes.begin_anew(1, 2)
    episodes.count(np.float64([1, 2, 3]), all_, all_)
    assert [(each.total, each.length) for each in episodes.take_new()] == [(2, 2), (2, 1), (3, 1)]
    assert episodes.take_new() == []
