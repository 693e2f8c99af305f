import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError, ArgumentTypeError, StateError, TooFewTransitionsError
from towerpack_dataflow.replay import PrioritizedSampling, ReplayBuffer, UniformSampling
from towerpack_dataflow.testing import check_memory

FRAME, ACTION = ((2,), "float32"), ((), "int64")


def memory(capacity=100, sampling=None, **arguments):
    return ReplayBuffer(FRAME, ACTION, capacity, sampling=sampling or UniformSampling(seed=1), **arguments)


def walk(buffer, steps, environment=0, episode=0, begin=0, end="truncated"):
    """Adds the steps of one episode; an observation is [episode, time]."""
    for time in range(begin, begin + steps):
        last = time == begin + steps - 1
        ends = last and end == "terminated", last and end == "truncated"
        after = [episode, time + 1]
        buffer.add([[episode, time]], [time], [time + 1.0], [ends[0]], [ends[1]], [after], [environment])


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("sampling", [UniformSampling, PrioritizedSampling])
def test_it_keeps_the_promises_of_memories(sampling, n_step, on_disk, tmp_path):
    numbers = iter(range(9))

    def make():
        directory = tmp_path / str(next(numbers)) if on_disk else None
        return memory(90, sampling(seed=3), n_step=n_step, gamma=0.9, directory=directory)

    check_memory(make, n_step=n_step, gamma=0.9)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    ends=st.lists(st.lists(st.sampled_from([0, 0, 0, 0, 1, 2]), min_size=3, max_size=3), max_size=60),
    capacity=st.integers(7, 60),
    frame_stack=st.integers(1, 3),
    left_out=st.integers(0, 3),
)
def test_it_equals_a_list_of_transitions(ends, capacity, frame_stack, left_out):
    buffer = memory(capacity, frame_stack=frame_stack)
    rows, now, episodes = [], [[number, 0] for number in range(3)], 3  # (frame, frame before or None)
    last = [None] * 3
    for step in ends:
        chosen = [number for number in range(3) if number != left_out]
        kept = [
            number for number in chosen if last[number] is not None and last[number] >= len(rows) - capacity
        ]
        starts = [number for number in chosen if number not in kept]
        after = {number: [now[number][0], now[number][1] + 1] for number in chosen}
        ended = [step[number] for number in chosen]
        buffer.add(
            np.float32([now[number] for number in chosen]),
            [now[number][1] for number in chosen],
            np.ones(len(chosen)),
            [end == 1 for end in ended],
            [end == 2 for end in ended],
            np.float32([after[number] for number in chosen]),
            chosen,
        )
        for number in starts:
            last[number] = len(rows)
            rows.append((now[number], None))
        for number in chosen:
            rows.append((after[number], last[number]))
            last[number], now[number] = len(rows) - 1, after[number]
            if step[number]:
                last[number], now[number] = None, [episodes, 0]
                episodes += 1
    expected = dict(stacks(rows, capacity, frame_stack))
    assert len(buffer) == len(expected)
    if expected:
        batch = buffer.sample(min(len(expected), 7))
        frames = batch.observation.reshape(len(batch.reward), frame_stack, 2)
        for index, stack in zip(batch.indices.tolist(), frames.tolist()):
            assert stack == expected[index]


def stacks(rows, capacity, frame_stack):
    """Yields the row of each transition with all frames kept, and the frames before it."""
    oldest = len(rows) - capacity
    for index, (_, before) in enumerate(rows):
        frames, row = [], before
        if before is None or index < oldest:
            continue
        for _ in range(frame_stack):
            if row < oldest:
                break
            frames.insert(0, rows[row][0])
            row = row if rows[row][1] is None else rows[row][1]
        if len(frames) == frame_stack:
            yield index, frames


def test_frames_are_stacked_within_an_episode():
    spaces = ((3,), "uint8"), ACTION
    for padding, first in [("reset", [[7] * 3, [7] * 3]), ("zero", [[0] * 3, [7] * 3])]:
        buffer = ReplayBuffer(*spaces, 50, frame_stack=2, padding=padding, sampling=UniformSampling(seed=0))
        for begin in (1, 7):
            one, two, three = ([begin + number] * 3 for number in range(3))
            buffer.add(one, 0, 0.0, False, False, two)
            buffer.add(two, 1, 0.0, False, True, three)
        for _ in range(20):
            batch = buffer.sample(4)
            assert batch.observation.shape == batch.next_observation.shape == (4, 2, 3)
            for action, before, after in zip(*(part.tolist() for part in (batch.action, *batch[:4:3]))):
                assert after == [before[1], [before[1][0] + 1] * 3]
                if before[1][0] == 7:
                    assert action == 0 and before == first


def test_observations_may_be_dicts_of_any_shape_and_dtype():
    space = {"image": ((4, 4), "uint8"), "speed": ((), "float64")}
    buffer = ReplayBuffer(space, ((2,), "float32"), 20, frame_stack=2, sampling=UniformSampling(seed=0))
    one, two = ({"image": np.full((4, 4), number), "speed": float(number)} for number in (1, 2))
    two["image"] = two["image"].astype(np.uint8)
    one["image"] = one["image"].astype(np.uint8)
    buffer.add(one, [0.0, 1.0], 1.0, True, False, two)
    batch = buffer.sample(1)
    assert batch.observation["image"].shape == (1, 2, 4, 4)
    assert batch.next_observation["speed"].tolist() == [[1.0, 2.0]]
    with pytest.raises(ArgumentError, match=r"observation is a dict with the arrays \['image', 'speed'\]"):
        buffer.add({"image": one["image"]}, [0.0, 1.0], 1.0, True, False, two)


def test_a_space_that_is_not_of_arrays_is_refused():
    for space in [("Tuple", "of", "spaces"), object(), {}, {"a": object()}, ((2,), "object"), None]:
        with pytest.raises(ArgumentTypeError, match="observation_space"):
            ReplayBuffer(space, ACTION, 20)


def test_one_transition_is_as_good_as_a_batch_of_one():
    one, other = memory(), memory()
    one.add([0, 0], 3, 1.0, True, False, [0, 1])
    other.add([[0, 0]], [3], [1.0], [True], [False], [[0, 1]])
    for mine, theirs in zip(one.sample(1), other.sample(1)):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"observation": [0, 0, 0]}, ArgumentError, r"observation has shape \(2,\); received \(3,\)"),
        ({"observation": ["a", "b"]}, ArgumentTypeError, "observation has dtype float32; received <U1"),
        ({"action": 0.5}, ArgumentTypeError, "action has dtype int64; received float64"),
        ({"reward": float("nan")}, ArgumentError, "reward is finite in float32; received"),
        ({"reward": 1e39}, ArgumentError, "reward is finite in float32; received"),
        ({"reward": [[1.0]]}, ArgumentError, r"reward is a number, or has one axis"),
        ({"terminated": 1}, ArgumentTypeError, "terminated has dtype bool; received int64"),
        ({"environments": -1}, ArgumentError, "environments is an integer from 0"),
        ({"environments": 0.5}, ArgumentError, "environments is an integer from 0"),
    ],
)
def test_a_step_that_cannot_be_is_refused_and_leaves_nothing(change, error, text):
    buffer = memory()
    step = {"observation": [0, 0], "action": 1, "reward": 1.0, "terminated": False, "truncated": False}
    with pytest.raises(error, match=text):
        buffer.add(**{**step, "next_observation": [0, 1], **change})
    assert len(buffer) == 0
    buffer.add(**step, next_observation=[0, 1])
    assert len(buffer) == 1


def test_environments_are_different():
    with pytest.raises(ArgumentError, match=r"environments are distinct numbers; received \[1, 1\]"):
        memory().add(np.zeros((2, 2)), [0, 0], [0.0, 0.0], [False] * 2, [False] * 2, np.zeros((2, 2)), [1, 1])


def test_numbers_that_do_not_fit_are_refused():
    buffer = ReplayBuffer(((), "int8"), ACTION, 10)
    with pytest.raises(ArgumentError, match="received numbers that do not fit"):
        buffer.add(300, 0, 0.0, False, False, 1)


def test_an_observation_of_another_moment_is_refused_and_a_break_allows_it():
    buffer = memory()
    walk(buffer, 3, environment=4, end="")
    with pytest.raises(ArgumentError, match=r"received another one from environments \[4\]"):
        walk(buffer, 1, environment=4, begin=9)
    buffer.break_episodes()
    walk(buffer, 1, environment=4, begin=9)
    for _ in range(20):
        batch = buffer.sample(4)
        assert (batch.next_observation[:, 1] == batch.observation[:, 1] + 1).all()


def test_nan_in_frames_is_no_other_moment():
    buffer = memory()
    for _ in range(2):
        buffer.add([np.nan, 0], 0, 0.0, False, False, [np.nan, 0])
    assert len(buffer) == 2


def test_a_memory_has_room_for_a_batch_and_holds_one():
    buffer = memory(10)
    with pytest.raises(ArgumentError, match="batch_size is at most the capacity, 10; received 11"):
        buffer.sample(11)
    with pytest.raises(TooFewTransitionsError, match="holds 0 transitions; received a request for 1"):
        buffer.sample(1)
    with pytest.raises(ArgumentError, match="batch_size"):
        buffer.sample(0)


def test_bounds():
    with pytest.raises(ArgumentError, match="received neither capacity nor max_bytes"):
        ReplayBuffer(FRAME, ACTION)
    with pytest.raises(ArgumentError, match=r"max_bytes is at least \d+ .* received 1000"):
        ReplayBuffer(FRAME, ACTION, max_bytes=1000)
    bounded = ReplayBuffer(FRAME, ACTION, max_bytes=10**6)
    assert 5 * 10**5 < bounded.nbytes <= 10**6
    assert bounded.capacity > 10_000
    assert ReplayBuffer(FRAME, ACTION, 500, max_bytes=10**6).capacity == 500
    assert ReplayBuffer(FRAME, ACTION, 10**6, max_bytes=10**6).capacity == bounded.capacity


def test_the_oldest_transitions_go_first():
    buffer = memory(50)
    walk(buffer, 500)
    assert len(buffer) == 49  # and the frame before the oldest one of them
    seen = set(np.concatenate([buffer.sample(49).action for _ in range(20)]).tolist())
    assert seen == set(range(451, 500))


def test_batches_are_written_into_given_arrays():
    buffer = memory()
    walk(buffer, 20)
    batch = buffer.sample(8)
    assert buffer.sample(8, out=batch) is batch
    with pytest.raises(ArgumentError, match=r"out.observation is a writable .* received shape \(8, 2\)"):
        buffer.sample(4, out=batch)
    with pytest.raises(ArgumentError, match="out is a TransitionBatch"):
        buffer.sample(8, out=list(batch))
    batch.reward.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"out.reward .* read-only"):
        buffer.sample(8, out=batch)


@pytest.mark.parametrize(
    ("indices", "priorities", "text"),
    [
        ([0], [1.0], r"received \[0\]"),  # the first frame of the episode
        ([21], [1.0], r"received \[21\]"),
        ([-1], [1.0], r"received \[-1\]"),
        ([1], [np.nan], "priorities are finite numbers from 0 up"),
        ([1], [-1.0], "priorities are finite numbers from 0 up"),
        ([1, 2], [1.0], r"received shapes \(2,\) and \(1,\)"),
        ([1.0], [1.0], "of dtype float64"),
    ],
)
def test_priorities_of_unsampled_transitions_are_rejected(indices, priorities, text):
    for sampling in (UniformSampling(seed=1), PrioritizedSampling(seed=1)):
        buffer = memory(sampling=sampling)
        walk(buffer, 20)
        with pytest.raises(ArgumentError, match=text):
            buffer.update_priorities(np.array(indices), np.array(priorities))


def test_priorities_of_dropped_transitions_are_left_out():
    buffer = memory(10, PrioritizedSampling(seed=1))
    walk(buffer, 8, end="")
    batch = buffer.sample(4)
    walk(buffer, 80, begin=8)
    buffer.update_priorities(batch.indices, np.full(4, 1e9))
    assert set(np.unique(buffer.sample(9).weight)) == {1.0}


def test_one_object_of_sampling_serves_one_memory():
    sampling = UniformSampling(seed=1)
    memory(sampling=sampling)
    with pytest.raises(ArgumentError, match="sampling belongs to one memory"):
        memory(sampling=sampling)


def test_states_of_other_memories_are_refused(tmp_path):
    buffer = memory()
    walk(buffer, 20)
    state = json.loads(json.dumps(buffer.state_dict()))
    buffer.link_into(tmp_path / "one")
    with pytest.raises(StateError, match="capacity was 100 and is 99"):
        memory(99).load_state_dict(state, tmp_path / "one")
    with pytest.raises(StateError, match="UniformSampling, but this memory has PrioritizedSampling"):
        memory(sampling=PrioritizedSampling(seed=1)).load_state_dict(state, tmp_path / "one")
    with pytest.raises(StateError, match="received no directory"):
        memory().load_state_dict(state)
    with pytest.raises(StateError, match="a state is the result of state_dict"):
        memory().load_state_dict({})
    walk(buffer, 1, episode=1)
    with pytest.raises(StateError, match="save both at the same time"):
        memory().load_state_dict(buffer.state_dict(), tmp_path / "one")
    memory().load_state_dict(memory().state_dict())


def test_threads_may_sample_while_another_one_adds():
    buffer = memory(2000, PrioritizedSampling(seed=1))
    walk(buffer, 100, end="")
    failures = []

    def learn():
        try:
            for _ in range(100):
                batch = buffer.sample(16)
                assert (batch.next_observation[:, 1] == batch.observation[:, 1] + 1).all()
                buffer.update_priorities(batch.indices, batch.reward)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=learn) for _ in range(2)]
    for thread in threads:
        thread.start()
    walk(buffer, 1000, begin=100)
    for thread in threads:
        thread.join()
    assert not failures
