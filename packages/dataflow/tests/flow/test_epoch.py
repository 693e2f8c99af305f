import copy
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import DataFromList, Epoch

places = st.tuples(
    st.integers(0, 3),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 10**7),
)


def draw(place):
    seed, path, number, index = place
    return Epoch(number, seed, path).rng(index).integers(2**62, size=2).tolist()


def test_an_epoch_is_an_integer_that_travels():
    epoch = Epoch(3, 5, (0, 1), {"0": [1]})
    assert epoch == 3
    assert f"{epoch}" == "3"
    copied = pickle.loads(pickle.dumps(epoch))
    assert (copied, copied.seed, copied.path, copied.marks) == (3, 5, (0, 1), {"0": [1]})
    assert copied.rng(2).random() == epoch.rng(2).random()


def test_the_next_epoch_has_separate_marks():
    epoch = Epoch(3, 5, (), {"0": [1]})
    following = epoch.following()
    following.marks["0"][0] = 2
    assert epoch.marks == {"0": [1]}
    assert epoch.below(0).marks is epoch.marks


def test_random_numbers_are_the_same_for_good():
    place = Epoch(2**33 + 3, seed=5, path=(1, 2), outer_epoch=7)
    assert place.rng(4).integers(2**32, size=3).tolist() == [1353189835, 2561963923, 149017562]
    assert place.rng(0).integers(2**32, size=3).tolist() == [2855847843, 3675893546, 3113728215]
    assert place.rng().integers(2**32, size=3).tolist() == [982875503, 3783729860, 3048451230]
    assert Epoch(2**32 + 3, 5).rng().integers(2**32) == 4057491589
    assert Epoch(2**32 - 1, 5).rng().integers(2**32) == 2083948368


def test_inner_passes_have_fixed_separate_seeds():
    place = Epoch(3, seed=5, path=(1,), outer_epoch=7)
    inside = [
        place.inside(0),
        place.inside(1),
        place.inside(0, index=0),
        place.inside(0, 4),
        place.inside(0, 4, 9),
    ]
    assert [epoch.seed for epoch in inside] == [
        279223612835408,
        129657871505071,
        179740436995951,
        147572570786459,
        219910437912138,
    ]
    assert place.inside(0, 5).seed == 232128216670796
    assert {(int(epoch), epoch.path, epoch.outer_epoch) for epoch in inside} == {(0, (), 0)}


def test_places_below_and_epochs_after():
    epoch = Epoch(2, 5, (1,), {"0": [1]}, outer_epoch=7)
    assert epoch.identity == (5, (1,), 7, 2)
    assert epoch.below(3).identity == (5, (1, 3), 7, 2)
    assert epoch.below(None, 9, 0).identity == (0, (1,), 7, 9)
    assert epoch.below(0, 0).identity == (5, (1, 0), 7, 0)
    assert epoch.following().identity == (5, (1,), 7, 3)
    assert Epoch(3).following(0).identity == (0, (), 0, 4)
    assert epoch.following(0).identity == (0, (1,), 7, 3)
    assert epoch.inner().identity == (5, (1,), (7 << 32) + 2, 0)
    assert Epoch(2**32, outer_epoch=1).inner().outer_epoch == 2**33
    assert epoch.inner().marks is epoch.marks
    assert (epoch.era, epoch.key, epoch.below(3).key) == (7, "1", "1.3")
    assert Epoch(0).identity == (0, (), 0, 0) and Epoch(0).marks == {}


def test_a_seed_that_is_drawn_has_48_bits():
    flows = [DataFromList([[0]]) for _ in range(64)]
    drawn = [flow.state_dict()["seed"] for flow in flows if list(flow)]
    assert 2**41 < max(drawn) < 2**48
    assert len(set(drawn)) == 64


@settings(deadline=None)  # the machine may be busy
@given(places, places)
def test_random_numbers_are_a_function_of_the_place_and_differ_elsewhere(one, other):
    assert (draw(one) == draw(other)) == (one == other)


def test_generators_spawn_the_same_generators():
    epoch = Epoch(3, seed=1)
    spawned = [[child.random() for child in Epoch(3, seed=1).rng(4).spawn(2)] for _ in range(2)]
    assert spawned[0] == spawned[1] and spawned[0][0] != spawned[0][1]
    others = [epoch.rng(index).spawn(1)[0].random() for index in (None, 0, 5)]
    assert len({*spawned[0], *others}) == 5
    rng = epoch.rng(4)
    rng.spawn(2)
    copies = [pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)]
    assert {rng.spawn(1)[0].random(), *(each.spawn(1)[0].random() for each in copies)}.isdisjoint(spawned[0])
    assert {each.random() for each in copies} == {epoch.rng(4).random()}
