import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError, DataFlow, StateError
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling
from towerpack_dataflow.testing import ConformanceError, check_dataflow, check_memory

SPACES = ((), "float64"), ((), "int64")


def filled(sampling, count=40, **arguments):
    """A memory of transitions with the actions 0, 1, 2, …, each an episode."""
    buffer = ReplayBuffer(*SPACES, arguments.pop("capacity", 1000), sampling=sampling, **arguments)
    numbers = np.arange(count)
    yes, no = np.ones(count, bool), np.zeros(count, bool)
    buffer.add(numbers * 1.0, numbers, np.zeros(count), yes, no, numbers + 0.5)
    return buffer


def counts(buffer, rounds=200, size=40):
    return np.bincount(np.concatenate([buffer.sample(size).action for _ in range(rounds)]), minlength=40)


def test_uniform_sampling_gives_each_transition_the_same_share():
    found = counts(filled(UniformSampling(seed=1)))
    assert abs(found - 200).max() < 5 * 200**0.5


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.floats(0, 1e6), min_size=40, max_size=40),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.integers(0, 99),
)
def test_shares_follow_the_priorities_and_weights_make_up_for_them(priorities, alpha, seed):
    buffer = filled(PrioritizedSampling(alpha, beta=1.0, epsilon=0.1, seed=seed))
    everything = np.arange(40, 80)  # behind the first frames
    buffer.update_priorities(everything, np.array(priorities))
    share = (np.array(priorities) + 0.1) ** alpha
    share /= share.sum()
    batch = buffer.sample(40)
    # Each range of the running sum is drawn from once, so no transition comes more often than that allows.
    drawn = np.bincount(batch.action, minlength=40)
    assert (drawn <= np.ceil(40 * share) + 1).all() and (drawn >= np.floor(40 * share) - 1).all()
    inverse = 1 / share[batch.action]
    np.testing.assert_allclose(batch.weight, inverse / inverse.max(), rtol=1e-4)


def test_a_new_transition_has_the_largest_priority():
    buffer = filled(PrioritizedSampling(alpha=1.0, seed=1))
    buffer.update_priorities(np.arange(40, 80), np.full(40, 1e-3))
    buffer.update_priorities(np.array([40]), np.array([1000.0]))
    buffer.add(9.0, 77, 0.0, True, False, 9.5)
    found = np.bincount(buffer.sample(40).action)
    assert found[0] == pytest.approx(20, abs=1) and found[77] == pytest.approx(20, abs=1)


def test_priorities_of_zero_leave_something_to_draw():
    buffer = filled(PrioritizedSampling(epsilon=0.0, seed=1))
    buffer.update_priorities(np.arange(40, 80), np.zeros(40))
    assert set(buffer.sample(40).action.tolist()) <= set(range(40))


def test_equal_seeds_draw_alike_and_others_do_not():
    for kind in (UniformSampling, PrioritizedSampling):
        one, two, three = (filled(kind(seed=seed)).sample(16).action.tolist() for seed in (1, 1, 2))
        assert one == two != three


def test_a_missing_seed_is_drawn_and_logged(caplog):
    caplog.set_level("INFO", "towerpack_dataflow")
    UniformSampling()
    assert "UniformSampling: drew seed" in caplog.text


def test_few_usable_rows_are_drawn_from_alone():
    buffer = ReplayBuffer(*SPACES, 16, frame_stack=5, sampling=UniformSampling(seed=1))
    zeros, no = np.zeros(3), np.zeros(3, bool)
    for time in range(9):
        buffer.add(zeros + time, [time] * 3, zeros, no, no, zeros + time + 1)
    assert len(buffer) == 1
    assert buffer.sample(1).observation.tolist() == [[4.0, 5.0, 6.0, 7.0, 8.0]]


@pytest.mark.parametrize("name", ["alpha", "beta", "epsilon"])
def test_powers_are_finite(name):
    with pytest.raises(ArgumentError, match=f"{name} is a finite number from 0 up; received nan"):
        PrioritizedSampling(**{name: float("nan")})


class Experience(DataFlow):
    """Batches of a memory as a flow, with a state for the flow and one for a callback."""

    live = True

    def __init__(self):
        self.memory = filled(UniformSampling(seed=3))
        self.epochs = 0

    def __iter__(self):
        while True:
            yield self.memory.sample(4)._asdict()

    def state_dict(self):
        return self.memory.state_dict()

    def load_state_dict(self, state):
        self.memory.load_state_dict(state, self.place)

    def callback_state_dict(self):
        return {"epochs": self.epochs}

    def load_callback_state_dict(self, state):
        self.epochs = state["epochs"]


def test_a_memory_may_be_a_live_flow_and_a_callback(tmp_path):
    one, other = Experience(), Experience()
    for _ in zip(range(5), one):
        pass
    one.epochs, other.place = 3, tmp_path
    state, kept = one.state_dict(), one.callback_state_dict()
    one.memory.link_into(tmp_path)
    other.load_callback_state_dict(kept)
    assert other.epochs == 3 and other.memory.state_dict() != state
    other.load_state_dict(state)
    first, second = next(iter(one)), next(iter(other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert other.callback_state_dict() == kept


def test_a_live_flow_of_batches_keeps_the_promises_of_flows():
    class Batches(DataFlow):
        live = True

        def __iter__(self):
            memory = filled(UniformSampling(seed=3))
            while True:
                yield memory.sample(30)._asdict()

    check_dataflow(Batches())


class Broken:
    """A memory that breaks a promise."""

    def __init__(self, promise):
        self._memory = ReplayBuffer(((2,), "float32"), ((), "int64"), 90, sampling=UniformSampling(seed=1))
        self._promise = promise

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def sample(self, size):
        batch = self._memory.sample(size)
        if self._promise == "termination":
            batch.discount[:] = 0.99
        if self._promise == "episode":
            batch.next_observation[:] = np.roll(batch.next_observation, 1, axis=0)
        return batch

    def update_priorities(self, indices, priorities):
        if self._promise != "priorities":
            self._memory.update_priorities(indices, priorities)

    def load_state_dict(self, state, directory):
        self._memory.load_state_dict(state, directory)
        if self._promise == "resume":
            self._memory.sampling._random.random()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "text"),
    [
        ("termination", "the discount of 1 steps"),
        ("episode", r"a transition leads from"),
        ("priorities", "priorities that are NaN is not rejected"),
        ("resume", "a memory restored from a state"),
    ],
)
def test_the_kit_finds_broken_promises(promise, text):
    with pytest.raises(ConformanceError, match=text):
        check_memory(lambda: Broken(promise))


def test_a_state_of_another_sampling_is_refused():
    with pytest.raises(StateError, match="the state belongs to PrioritizedSampling; this is Uniform"):
        UniformSampling(seed=1).load_state_dict(PrioritizedSampling(seed=1).state_dict())
