import pytest

from towerpack_dataflow import ArgumentTypeError, BatchData, DataFromList, FilterData, UnknownLengthError
from towerpack_dataflow.testing import check_dataflow


def source(size=20):
    return DataFromList([[i] for i in range(size)])


FLOWS = {
    "filter": lambda: FilterData(source(), lambda dp: dp[0] % 3),
    "random": lambda: FilterData(source(), lambda dp, rng: rng.random() < 0.5, rng=True),
    "two": lambda: FilterData(FilterData(source(), lambda dp: dp[0] % 2), lambda dp: dp[0] % 3),
    "nothing": lambda: FilterData(source(), lambda dp: False),
    "batches": lambda: BatchData(FilterData(source(), lambda dp: dp[0] % 3), 4, remainder=True),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_a_stream_without_length():
    flow = FilterData(source(), lambda dp: dp[0] < 5)
    assert not flow.addressable
    assert sorted(flow) == [[0], [1], [2], [3], [4]]
    with pytest.raises(UnknownLengthError, match=r"so the length of a pass is unknown; .*FixedSizeData"):
        len(flow)


def test_resuming_makes_nothing_again():
    seen = []

    def even(dp):
        seen.append(dp[0])
        return dp[0] % 2 == 0

    flow = FilterData(DataFromList(range(100), shuffle=False), lambda number: even([number]))
    iterator = iter(flow)
    assert [next(iterator) for _ in range(30)][-1] == 58
    state = flow.state_dict()
    fresh = FilterData(DataFromList(range(100), shuffle=False), lambda number: even([number]))
    fresh.load_state_dict(state)
    seen.clear()
    assert next(iter(fresh)) == 60
    assert seen == [59, 60]


def test_a_predicate_that_cannot_be_called():
    with pytest.raises(ArgumentTypeError, match="FilterData takes a function of a datapoint; received int"):
        FilterData(source(), 3)


def test_none_is_refused_where_the_predicate_keeps_it():
    flow = DataFromList([1, None], shuffle=False)
    assert list(FilterData(flow, lambda dp: dp is not None)) == [1]
    with pytest.raises(ArgumentTypeError, match="FilterData received the datapoint None and kept it"):
        list(FilterData(flow, lambda dp: True))
