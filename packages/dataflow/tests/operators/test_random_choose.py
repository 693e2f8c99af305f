from itertools import islice

import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    DataFromList,
    FilterData,
    MapData,
    RandomChooseData,
    RepeatedData,
    RNGDataFlow,
    UnknownLengthError,
)
from towerpack_dataflow.testing import check_dataflow


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __iter__(self):
        for number in range(self.rng.integers(4, 20)):
            yield [number, self.rng.integers(100)]


def source(size=12):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


def twice(flow):
    return RandomChooseData([flow, source(), flow])


FLOWS = {
    "alike": lambda: RandomChooseData([source(), source(30)]),
    "probabilities": lambda: RandomChooseData([(source(), 0.2), (source(40), 0.8), (source(5), 0)]),
    "streams": lambda: RandomChooseData([FilterData(source(30), lambda dp: dp[0] % 3), Uneven()]),
    "one stream twice": lambda: twice(Uneven()),
    "endless": lambda: RandomChooseData([RepeatedData(source(), -1), RepeatedData(Uneven(), -1)]),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name](), limit=60)


def test_a_pass_ends_with_the_flow_that_is_drawn_and_has_no_more():
    flow = RandomChooseData([[["a"]] * 5, [["b"]] * 1000])
    flow.seed(0)
    letters = [letter for (letter,) in flow]
    assert letters.count("a") == 5
    assert len(letters) < 40


def test_probabilities():
    endless = [RepeatedData([[name]], -1) for name in "abc"]
    flow = RandomChooseData(list(zip(endless, [0.7, 0.2, 0.1])))
    flow.seed(1)
    letters = [letter for (letter,) in islice(flow, 20_000)]
    for letter, share in zip("abc", [0.7, 0.2, 0.1]):
        assert abs(letters.count(letter) / 20_000 - share) < 0.02
    # Tensorpack compares their sum with 1.0, which these miss by a rounding error.
    assert list(islice(RandomChooseData([(flow, 0.1) for flow in endless * 4][:10]), 3))


def test_resuming_makes_nothing_again():
    made = []
    flows = [MapData(range(50_000), lambda number: made.append(number) or number) for _ in range(2)]
    expected = RandomChooseData([range(50_000), range(50_000)])
    for flow in (expected, resumed := RandomChooseData(flows)):
        flow.load_state_dict({"seed": 3, "epoch": 0, "index": 40_000})
    assert list(islice(resumed, 10)) == list(islice(expected, 10))
    assert len(made) == 10


def test_other_probabilities_are_another_flow():
    state = RandomChooseData([(source(), 0.2), (source(), 0.8)]).state_dict()
    with pytest.raises(
        ValueError, match=r"probabilities of RandomChooseData was 0\.2, 0\.8 and is 0\.5, 0\.5"
    ):
        RandomChooseData([source(), source()]).load_state_dict(state)


def test_the_length_is_unknown():
    with pytest.raises(UnknownLengthError, match="ends when one of its flows does"):
        len(RandomChooseData([source()]))


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        ([(source(), 0.5), (source(), 0.6)], "probabilities from 0 up with the sum 1; .* the sum 1.1"),
        ([(source(), -1.0), (source(), 2.0)], "probabilities from 0 up"),
        ([(source(), float("nan")), (source(), 1.0)], "probabilities from 0 up"),
        ([(source(), 0.5), source()], "flows alone, or .* pairs alone; received 1 pairs among 2"),
        ([], "takes at least one flow"),
    ],
)
def test_bad_probabilities(flows, message):
    with pytest.raises(ArgumentError, match=message):
        RandomChooseData(flows)
    with pytest.raises(ArgumentTypeError, match="takes a list of flows"):
        RandomChooseData(source())
