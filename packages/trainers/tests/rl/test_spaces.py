"""Actions are in the space of the environments, in its dtype, for any result of the graph."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from towerpack_trainers import ModelError
from towerpack_trainers.rl._environments import GroupedSteps

DTYPES = ["float16", "float32", "float64"]


class Recording:
    """Environments that record the actions of the latest step."""

    num_envs, metadata = 3, {"autoreset_mode": "NextStep"}

    def __init__(self, observations, actions):
        self.single_observation_space, self.single_action_space = observations, actions

    def reset(self, *, seed=None, options=None):
        return np.zeros([3, 2], np.float32), {}

    def step(self, actions):
        self.actions = actions
        return np.zeros([3, 2], np.float32), np.zeros(3), np.zeros(3, bool), np.zeros(3, bool), {}


def taken(observations, space, actions):
    """Returns the actions that environments of a space receive."""
    envs = Recording(observations, space)
    steps = GroupedSteps(envs)
    steps.reset(0)
    steps.parts[0].send(actions)
    steps.parts[0].receive()
    return envs.actions


@st.composite
def boxes_and_actions(draw):
    """Draws a dtype, two bounds of it in order, and actions near and far from them."""
    dtype = draw(st.sampled_from(DTYPES))
    width = 8 * np.dtype(dtype).itemsize
    bounds = st.floats(width=width, allow_nan=False)
    low, high = sorted([draw(bounds), draw(bounds)])
    if draw(st.booleans()):
        high = low
    assume(low < np.inf and high > -np.inf)  # as in gymnasium
    with np.errstate(over="ignore"):
        ends = np.float32([low, high])
        near = np.concatenate([ends, np.nextafter(ends, np.float32(np.inf)), np.nextafter(ends, -np.inf)])
    far = draw(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3))
    return dtype, low, high, np.concatenate([near, np.float32(far)]).astype(np.float32).reshape(3, 3)


@settings(
    max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 50)),
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # a class, which no example changes
)
@given(boxes_and_actions())
def test_an_action_is_in_its_box_and_moves_as_little_as_possible(box, case):
    dtype, low, high, actions = case
    space = box([3], dtype, low, high)
    received = taken(box([2]), space, actions)
    assert received.dtype == space.dtype
    # As gymnasium's Box.contains has it.
    assert (received >= space.low).all() and (received <= space.high).all()
    assert np.isfinite(received).all()
    with np.errstate(over="ignore"):
        kept = actions.astype(dtype)
    inside = (kept >= low) & (kept <= high) & np.isfinite(kept)
    assert (received[inside] == kept[inside]).all()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float64", 0.1, 0.1),
        ("float64", -0.3, 0.7),
        ("float64", -1e308, 1e308),
        ("float64", 5e-324, 1e-320),
        ("float64", -np.inf, 0.1),
        ("float16", -0.1, 0.1),
        ("float16", 6e-8, 6e-8),
        ("float16", -np.inf, np.inf),
        ("float16", 1000.0, np.inf),
        ("float32", np.float32(1e-45), 1.0),
    ],
)
def test_bounds_that_float32_cannot_represent(box, dtype, low, high):
    space = box([3], dtype, low, high)
    actions = np.full([3, 3], 3e38, np.float32) * np.float32([[1], [-1], [0]])
    received = taken(box([2]), space, actions)
    assert received.dtype == space.dtype and np.isfinite(received).all()
    assert (received >= space.low).all() and (received <= space.high).all()


def test_choices_have_the_dtype_of_their_space(box, discrete):
    space = discrete(3, start=5)
    space.dtype = np.dtype("int32")
    received = taken(box([2]), space, np.array([0, 1, 2]))
    assert received.dtype == np.int32 and received.tolist() == [5, 6, 7]


def test_a_nan_action_is_an_error_of_the_policy(box):
    with pytest.raises(
        ModelError, match=r"The policy returned actions that are not numbers .* learning rate"
    ):
        taken(box([2]), box([1], low=-1, high=1), np.float32([[0], [np.nan], [0]]))
