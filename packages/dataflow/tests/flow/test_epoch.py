import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import Epoch

places = st.tuples(
    st.integers(0, 3),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 10**7),
)


def draw(place):
    seed, path, number, index = place
    return Epoch(number, seed, path).rng(index).integers(2**62, size=2).tolist()


@settings(deadline=None)  # the machine may be busy
@given(places, places)
def test_random_numbers_are_a_function_of_the_place_and_differ_elsewhere(one, other):
    assert (draw(one) == draw(other)) == (one == other)


def test_an_epoch_is_an_integer_that_travels():
    epoch = Epoch(3, 5, (0, 1), {"0": [1]})
    assert epoch == 3
    assert f"{epoch}" == "3"
    copied = pickle.loads(pickle.dumps(epoch))
    assert (copied, copied.seed, copied.path, copied.marks) == (3, 5, (0, 1), {"0": [1]})
    assert copied.rng(2).random() == epoch.rng(2).random()


def test_the_next_epoch_has_marks_of_its_own():
    epoch = Epoch(3, 5, (), {"0": [1]})
    following = epoch.following()
    following.marks["0"][0] = 2
    assert epoch.marks == {"0": [1]}
    assert epoch.below(0).marks is epoch.marks
