"""Memories return the added values in the dtypes of their spaces, or reject them by name."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from towerpack_dataflow import ArgumentError, ArgumentTypeError, StateError
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, RolloutBuffer, UniformSampling

SETTINGS = settings(
    max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 40)),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
DTYPES = st.one_of(
    arrays.scalar_dtypes(),
    arrays.boolean_dtypes(),
    arrays.byte_string_dtypes(min_len=1),
    arrays.unicode_string_dtypes(min_len=1),
    st.just(np.dtype([("a", ">i4"), ("b", "M8[s]"), ("c", "f2", (2,))])),
    st.just(np.dtype(np.longdouble)),
).filter(lambda dtype: dtype.itemsize)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=2, max_side=3)
ANYTHING = st.one_of(
    st.integers(),
    st.integers(2**53 - 2, 2**53 + 2),
    st.floats(),
    st.booleans(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.none(),
    st.lists(
        st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=2)), min_size=1, max_size=3
    ),
    DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)),
    arrays.arrays(np.float64, 2).map(lambda array: np.ma.array(array, mask=[True, False])),
)


def same(found, given):
    """Compares values of any dtypes; NaN and NaT equal themselves."""
    if isinstance(given, np.ndarray) and given.dtype == found.dtype:
        return given.tobytes() == found.tobytes()
    if found.ndim:
        return len(found) == len(given) and all(
            same(np.asarray(one), other) for one, other in zip(found, given)
        )
    value, wanted = found[()], given[()] if isinstance(given, np.ndarray) else given
    if value != value:
        return bool(wanted != wanted)
    if isinstance(value, (np.integer, np.bool_, np.floating)) and isinstance(wanted, int):
        return int(value) == wanted
    return bool(value == wanted) and isinstance(value, (str, bytes)) == isinstance(wanted, (str, bytes))


def _one(batch):
    return batch.reshape(batch.shape[1:])


def kept_by_replay(dtype, value):
    """Returns an observation, an action and their batch's, of a memory for such values."""
    shape = np.shape(value)
    memory = ReplayBuffer((shape, dtype), (shape, dtype), 10, sampling=UniformSampling(seed=1))
    memory.add(value, value, 0.5, True, False, value)
    batch = memory.sample(1)
    memory.close()
    return [_one(batch.observation), _one(batch.action), _one(batch.next_observation)]


def kept_by_rollout(dtype, value):
    shape = np.shape(value)
    rollout = RolloutBuffer((shape, dtype), (shape, dtype), steps=1, environments=1, seed=1)
    one = value[None] if isinstance(value, (np.ndarray, np.generic)) else [value]
    rollout.add(one, one, [0.5], [True], [False], value=[0.0], log_probability=[0.0])
    rollout.finish([0.0])
    (batch,) = rollout.minibatches(1)
    return [_one(batch.observation), _one(batch.action)]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [kept_by_replay, kept_by_rollout])
@given(data=st.data())
@SETTINGS
def test_values_of_the_spaces_dtype_are_restored_to_the_last_bit(keep, data):
    array = data.draw(DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)))
    for found in keep(array.dtype, array):
        assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [kept_by_replay, kept_by_rollout])
@given(data=st.data())
@SETTINGS
def test_any_other_value_comes_back_or_is_refused(keep, data):
    dtype, value = data.draw(DTYPES), data.draw(ANYTHING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of ragged lists
            kept = keep(dtype, value)
    except (ArgumentError, ArgumentTypeError) as error:
        assert "observation" in str(error) or "action" in str(error)
        return
    for found in kept:
        assert found.dtype == dtype and same(found, value), (found, value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u1", 256),
        ("u1", -1),
        ("u1", np.int64(300)),
        ("i8", 2**63),
        ("i8", np.uint64(2**64 - 1)),
        ("f8", 2**53 + 1),
        ("f8", [2**53 + 1, 0.5]),
        ("f4", 2**24 + 1),
        ("f4", 0.1),
        ("f4", 1e300),
        ("f2", np.float32(1e-8)),
        ("U2", "abc"),
        ("S3", b"a\0"),
        ("U3", ["a", 1]),
        ("M8[s]", np.datetime64("2020-01-01T00:00:00.5")),
        ("M8[ns]", np.datetime64("9999-01-01")),
        ("m8[D]", np.timedelta64(400, "Y")),
        ("f4", np.ma.array([1.0], mask=[True])),
    ],
)
def test_a_value_that_the_dtype_does_not_hold_is_refused_by_name(dtype, value):
    for keep in (kept_by_replay, kept_by_rollout):
        with pytest.raises((ArgumentError, ArgumentTypeError), match=r"observation|action"):
            keep(np.dtype(dtype), value)


@pytest.mark.parametrize("dtype", ["U0", "S0", "V0", ("f4", (2,)), object])
def test_a_space_with_unsupported_values_is_rejected(dtype):
    with pytest.raises(ArgumentTypeError, match="observation_space is a space of arrays"):
        ReplayBuffer(((), dtype), ((), "i8"), 10)


def test_rewards_are_rounded_to_float32_and_too_large_ones_refused():
    memory = ReplayBuffer(((), "i8"), ((), "i8"), 10, sampling=UniformSampling(seed=1))
    memory.add(1, 1, np.float64(0.1), True, False, 2)
    assert memory.sample(1).reward[0] == np.float32(0.1)
    with pytest.raises(ArgumentError, match="reward is finite in float32"):
        memory.add(1, 1, 1e39, True, False, 2)


@pytest.mark.parametrize("priority", [1e300, np.longdouble("1e400")])
def test_priorities_with_an_infinite_sum_are_rejected(priority):
    memory = ReplayBuffer(((), "i8"), ((), "i8"), 10, sampling=PrioritizedSampling(alpha=2.0, seed=1))
    memory.add(1, 1, 0.0, True, False, 2)
    batch = memory.sample(1)
    with pytest.raises(ArgumentError, match="priorities"):
        memory.update_priorities(batch.indices, np.array([priority]))
    assert np.isfinite(memory.sample(1).weight).all()


def test_a_state_of_other_priorities_is_refused():
    def make(alpha):
        return ReplayBuffer(((), "i8"), ((), "i8"), 10, sampling=PrioritizedSampling(alpha=alpha, seed=1))

    state = make(0.6).state_dict()
    with pytest.raises(StateError, match=r"alpha=0\.6, but these have alpha=0\.5"):
        make(0.5).load_state_dict(state)
    del state["sampling"]["alpha"], state["sampling"]["epsilon"]  # a state of an earlier release
    make(0.5).load_state_dict(state)
