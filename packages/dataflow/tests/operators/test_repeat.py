from itertools import islice

import pytest

from towerpack_dataflow import (
    ArgumentError,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    EmptyFlowError,
    FixedSizeData,
    MapData,
    RepeatedData,
)
from towerpack_dataflow.testing import check_dataflow


def source(size=5):
    return DataFromList([[i] for i in range(size)])


class Growing(DataFlow):
    """A stream with epochs of different length: nothing about it can be computed."""

    def __init__(self):
        self.order = DataFromList(range(6))

    def __iter__(self):
        for number in self.order:
            yield [number]
            if number == 3:
                return


FLOWS = {
    "repeated": lambda: RepeatedData(source(), 3),
    "repeated stream": lambda: RepeatedData(Growing(), 3),
    "repeated repeated": lambda: RepeatedData(RepeatedData(Growing(), 2), 2),
    "endless": lambda: RepeatedData(source(), -1),
    "endless stream": lambda: RepeatedData(Growing(), -1),
    "shorter": lambda: FixedSizeData(source(), 3),
    "longer": lambda: FixedSizeData(source(), 12),
    "shorter stream": lambda: FixedSizeData(Growing(), 2),
    "longer stream": lambda: FixedSizeData(Growing(), 12),
    "anew": lambda: FixedSizeData(source(), 3, keep_state=False),
    "anew and longer": lambda: FixedSizeData(source(), 12, keep_state=False),
    "stream anew": lambda: FixedSizeData(Growing(), 7, keep_state=False),
    "fixed endless": lambda: FixedSizeData(RepeatedData(source(), -1), 7),
    "fixed fixed": lambda: FixedSizeData(FixedSizeData(Growing(), 4), 6),
    "over drops": lambda: FixedSizeData(
        MapData(source(), lambda dp: dp if dp[0] % 2 else None, drops=True), 7
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name](), limit=60)


def test_repetitions_are_epochs_of_the_child():
    def seeded(flow):
        flow.seed(4)
        return flow

    # The same place in the tree, so the same shuffles.
    once = seeded(RepeatedData(source(20), 1))
    epochs = [list(once) for _ in range(4)]
    twice = seeded(RepeatedData(source(20), 2))
    assert list(twice) == epochs[0] + epochs[1]
    assert list(twice) == epochs[2] + epochs[3]
    endless = seeded(RepeatedData(source(20), -1))
    assert list(islice(endless, 60)) == epochs[0] + epochs[1] + epochs[2]
    assert list(islice(endless, 20)) not in epochs
    kept = seeded(FixedSizeData(source(20), 30))
    assert list(kept) + list(kept) == epochs[0] + epochs[1] + epochs[2]


def test_leaving_early_skips_to_the_next_part():
    flow = FixedSizeData(DataFromList([1, 2, 3, 4, 5], shuffle=False), 3)
    next(iter(flow))
    assert list(flow) == [4, 5, 1]
    stream = FixedSizeData(DataFromGenerator(lambda: iter([1, 2, 3, 4, 5])), 3)
    next(iter(stream))
    assert list(stream) == [4, 5, 1]


def test_lengths():
    assert len(RepeatedData(source(5), 3)) == 15
    assert len(FixedSizeData(Growing(), 9)) == 9
    with pytest.raises(TypeError, match=r"RepeatedData\(-1\) is endless; fix the length"):
        len(RepeatedData(source(), -1))
    assert RepeatedData(source(), 2).addressable
    assert not RepeatedData(source(), -1).addressable


def test_resuming_far_into_an_addressable_flow_makes_nothing_before_it():
    made = []
    flow = RepeatedData(MapData(source(1000), lambda dp: made.append(dp) or dp), -1)
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 10**9})
    next(iter(flow))
    assert len(made) == 1


def test_resuming_a_stream_starts_at_the_childs_own_epoch():
    made = []

    class Counted(DataFlow):
        def __iter__(self):
            for number in range(10):
                made.append(number)
                yield number

    flow = FixedSizeData(Counted(), 25)
    for _ in range(3):
        list(flow)
    iterator = iter(flow)
    for _ in range(7):
        next(iterator)
    state = flow.state_dict()
    fresh = FixedSizeData(Counted(), 25)
    fresh.load_state_dict(state)
    made.clear()
    assert next(iter(fresh)) == next(iterator)
    assert len(made) < 10 + 2


@pytest.mark.parametrize("num", [0, -2, 1.5, None, "2"])
def test_bad_num(num):
    with pytest.raises(
        ArgumentError, match="num is an integer from 1 up, or -1 for endless repetition; received "
    ):
        RepeatedData(source(), num)
    if num != -1:
        with pytest.raises(ArgumentError, match="size is an integer from 1 up; received "):
            FixedSizeData(source(), num)


def test_repeating_nothing_forever_is_an_error():
    with pytest.raises(EmptyFlowError, match="repeats DataFromList, which yielded no datapoint in epoch 0"):
        next(iter(RepeatedData([], -1)))
    with pytest.raises(EmptyFlowError, match="which yielded no datapoint"):
        next(iter(FixedSizeData(DataFromGenerator(lambda: iter([])), 2)))
    assert list(RepeatedData([], 2)) == []


def test_a_flow_over_only_endless_flows_is_endless():
    forever = RepeatedData([[1], [2]], -1)
    assert forever.endless and MapData(forever, list).endless and RepeatedData(forever, 2).endless
    assert not RepeatedData([[1]], 2).endless
    assert not FixedSizeData(forever, 3).endless
    assert not MapData([[1]], list).endless
