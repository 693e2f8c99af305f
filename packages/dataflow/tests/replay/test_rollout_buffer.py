import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    SegmentError,
    StateError,
    TooFewTransitionsError,
)
from towerpack_dataflow.replay import RolloutBuffer

STEPS, ENVIRONMENTS = 6, 2


def rollout(**arguments):
    spaces = ((3,), "float32"), ((), "int64")
    arguments = {"steps": STEPS, "environments": ENVIRONMENTS, "seed": 1, **arguments}
    return RolloutBuffer(*spaces, **arguments)


def step(number=0, **change):
    return {
        "observation": np.full((2, 3), number, np.float32),
        "action": [number, number + 100],
        "reward": [1.0, 2.0],
        "terminated": [False, False],
        "truncated": [False, False],
        "value": [0.5, 0.25],
        "log_probability": [-1.0, -2.0],
        **change,
    }


def filled(**arguments):
    buffer = rollout(**arguments)
    for number in range(STEPS):
        buffer.add(**step(number))
    return buffer


def of_definition(reward, value, after, ended, gamma, lam):
    """The sum of the paper, term by term, in float64."""
    found = np.zeros(len(reward))
    for begin in range(len(reward)):
        factor = 1.0
        for time in range(begin, len(reward)):
            found[begin] += factor * (reward[time] + gamma * after[time] - value[time])
            factor *= gamma * lam
            if ended[time]:
                break
    return found


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_advantages_are_those_of_the_paper(seed, gamma, lam):
    random = np.random.default_rng(seed)
    reward, value, cut_value = random.normal(size=(3, STEPS))
    terminated, cut = random.random((2, STEPS)) < 0.3
    truncated, last = cut & ~terminated, random.normal()
    buffer = rollout(environments=1, gamma=gamma, lam=lam)
    for time in range(STEPS):
        buffer.add(
            np.zeros((1, 3)),
            [time],
            [reward[time]],
            [terminated[time]],
            [truncated[time]],
            value=[value[time]],
            log_probability=[0.0],
            truncation_value=[cut_value[time]],
        )
    buffer.finish([last])
    after = np.where(terminated, 0, np.where(truncated, cut_value, [*value[1:], last]))
    expected = of_definition(reward, value, after, terminated | truncated, gamma, lam)
    (batch,) = buffer.minibatches(STEPS)
    assert batch.advantage.dtype == np.float32
    np.testing.assert_allclose(batch.advantage, expected[batch.action], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.value_target, batch.advantage + batch.value)


def test_a_step_that_only_resets_lends_its_value_and_is_in_no_batch():
    """In autoreset mode NEXT_STEP, the observation of that step is the last one of the episode."""
    buffer = rollout(environments=1, steps=3, gamma=0.5, lam=0.5)
    for time, (value, truncated, valid) in enumerate(
        [(1.0, True, True), (8.0, False, False), (3.0, False, True)]
    ):
        buffer.add(
            np.zeros((1, 3)),
            [time],
            [1.0],
            [False],
            [truncated],
            value=[value],
            log_probability=[0.0],
            valid=[valid],
        )
    buffer.finish([2.0])
    (batch,) = buffer.minibatches(3)
    found = dict(zip(batch.action.tolist(), batch.advantage.tolist()))
    assert found == {0: 1 + 0.5 * 8 - 1, 2: 1 + 0.5 * 2 - 3}


def test_each_step_comes_once_in_an_epoch_in_a_seeded_order():
    one, other = (filled() for _ in range(2))
    for buffer in (one, other):
        assert buffer.full
        buffer.finish([0.0, 0.0])
    batches = [batch.action.tolist() for batch in one.minibatches(5, epochs=2)]
    assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 4]
    epochs = [[*chain(*part)] for part in (batches[:3], batches[3:])]
    assert epochs[0] != epochs[1]
    assert all(sorted(epoch) == sorted([*range(6), *range(100, 106)]) for epoch in epochs)
    assert batches == [batch.action.tolist() for batch in other.minibatches(5, epochs=2)]
    one.clear()
    assert len(one) == 0


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            {"observation": np.zeros((2, 4))},
            ArgumentError,
            r"has shape \(2, 3\); received \(2, 4\)",
        ),
        ({"action": [0.5, 0.5]}, ArgumentTypeError, "action has dtype int64"),
        (
            {"reward": [1.0, np.nan]},
            ArgumentError,
            r"reward is finite .*nan.* index \(1,\)",
        ),
        ({"value": [np.inf, 0.0]}, ArgumentError, "value is finite"),
        (
            {"truncated": [True, False], "truncation_value": [np.nan, 0]},
            ArgumentError,
            "truncation_value is finite",
        ),
        ({"valid": [1, 1]}, ArgumentTypeError, "valid has dtype bool"),
    ],
)
def test_a_step_that_cannot_be_is_refused(change, error, text):
    buffer = rollout()
    with pytest.raises(error, match=text):
        buffer.add(**step(**change))
    assert len(buffer) == 0


def test_calls_in_another_order_are_refused():
    buffer = rollout()
    with pytest.raises(ArgumentError, match=r"finish\(\) needs 6 steps; received 0"):
        buffer.finish([0.0, 0.0])
    buffer = filled()
    with pytest.raises(ArgumentError, match="a rollout has 6 steps; received another"):
        buffer.add(**step())
    with pytest.raises(TooFewTransitionsError, match="no call of finish"):
        buffer.minibatches(4)
    with pytest.raises(ArgumentError, match="size is at most 12, the steps of a rollout; received 13"):
        buffer.minibatches(13)
    with pytest.raises(ArgumentError, match=r"gamma is a number from 0 to 1; received 1\.5"):
        rollout(gamma=1.5)


def test_a_truncation_needs_its_value():
    buffer = rollout(steps=2)
    buffer.add(**step(truncated=[False, True]))
    buffer.add(**step())
    with pytest.raises(ArgumentError, match="received none at step 0 of environment 1"):
        buffer.finish([0.0, 0.0])


@pytest.mark.parametrize("steps", [0, 3, STEPS])
def test_it_resumes_from_a_state(tmp_path, steps):
    one, other = rollout(), rollout(seed=9)
    for number in range(steps):
        one.add(**step(number))
    if steps == STEPS:
        one.finish([1.0, 2.0])
        next(one.minibatches(4))
    state = json.loads(json.dumps(one.state_dict()))
    one.link_into(tmp_path)
    other.load_state_dict(state, tmp_path)
    for buffer in (one, other):
        for number in range(steps, STEPS):
            buffer.add(**step(number))
        if steps < STEPS:
            buffer.finish([1.0, 2.0])
    for mine, theirs in zip(one.minibatches(5), other.minibatches(5)):
        assert all(np.array_equal(*pair) for pair in zip(mine, theirs))


def test_states_of_other_rollouts_are_refused(tmp_path):
    buffer = filled()
    state = buffer.state_dict()
    buffer.link_into(tmp_path)
    with pytest.raises(StateError, match="does not belong to such a rollout"):
        rollout(steps=7).load_state_dict(state, tmp_path)
    with pytest.raises(StateError, match="received no directory"):
        rollout().load_state_dict(state)
    with pytest.raises(StateError, match="save both at the same time"):
        rollout().load_state_dict(rollout().state_dict(), tmp_path)
    (tmp_path / "reward.bin").unlink()
    with pytest.raises(SegmentError, match=r"reward\.bin"):
        rollout().load_state_dict(state, tmp_path)
