import logging

import pytest

from towerpack_dataflow import (
    ArgumentTypeError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    NotAddressableError,
    RepeatedData,
)
from towerpack_dataflow.testing import check_dataflow


def source(size=12):
    return DataFromList([[i] for i in range(size)])


def stream(size=12):
    return DataFromGenerator(lambda: ([i] for i in range(size)))


def double(dp):
    dp[0] *= 2  # in place: the source must not see it
    return dp


def odd(dp):
    return dp if dp[0] % 2 else None


def noisy(dp, rng):
    return [*dp, rng.integers(1000)]


def noisy_odd(dp, rng):
    return [*dp, rng.integers(1000)] if rng.random() < 0.5 else None


FLOWS = {
    "one": lambda: MapData(source(), double),
    "two": lambda: MapData(MapData(source(), double), double),
    "five": lambda: MapData(MapData(MapData(MapData(MapData(source(), double), double), list), list), list),
    "random": lambda: MapData(MapData(source(), noisy, rng=True), noisy, rng=True),
    "over a stream": lambda: MapData(MapData(stream(), double), noisy, rng=True),
    "drops": lambda: MapData(source(), odd, drops=True),
    "drops over a stream": lambda: MapData(stream(), odd, drops=True),
    "drops twice": lambda: MapData(
        MapData(source(40), noisy_odd, rng=True, drops=True), noisy_odd, rng=True, drops=True
    ),
    "drops all": lambda: MapData(source(), lambda dp: None, drops=True),
    "batches of what is left": lambda: BatchData(MapData(source(23), odd, drops=True), 3, remainder=True),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


# Maps that drop although nobody said so. check_dataflow would object to their len(), and rightly, so the
# other promises are checked here, on the trees where arithmetic would go wrong.
SURPRISES = {
    "alone": lambda: MapData(source(), odd),
    "lower of two": lambda: MapData(MapData(source(), odd), double),
    "upper of two": lambda: MapData(MapData(source(), double), lambda dp: None if dp[0] % 3 else dp),
    "the same twice": lambda: MapData(MapData(source(), odd), odd),
    "random": lambda: MapData(source(), noisy_odd, rng=True),
    "batched": lambda: BatchData(MapData(source(25), odd), 3, remainder=True, use_list=True),
    "repeated": lambda: RepeatedData(MapData(source(5), odd), 3),
    "fixed": lambda: FixedSizeData(MapData(source(7), odd), 5),
    "fixed and batched": lambda: BatchData(FixedSizeData(MapData(source(7), odd), 10), 4, use_list=True),
    "late": lambda: BatchData(MapData(source(30), lambda dp: None if dp[0] == 20 else dp), 4, use_list=True),
}


@pytest.mark.parametrize("name", SURPRISES)
def test_unannounced_drops_are_exact(name):
    def fresh():
        flow = SURPRISES[name]()
        flow.seed(3)
        return flow

    whole = fresh()
    passes = [list(whole) for _ in range(4)]
    for start_epoch in (0, 2):
        for position in range(len(passes[start_epoch]) + 1):
            flow = fresh()
            for _ in range(start_epoch):
                list(flow)
            iterator = iter(flow)
            got = [next(iterator) for _ in range(position)]
            state = flow.state_dict()
            assert got + list(iterator) == passes[start_epoch]
            resumed = fresh()
            resumed.load_state_dict(state)
            assert got + list(resumed) == passes[start_epoch]
            assert list(resumed) == passes[start_epoch + 1]


def test_an_unannounced_drop_warns_once_and_ends_len_and_random_access(caplog):
    flow = MapData(source(), odd)
    assert len(flow) == 12
    assert flow.addressable
    with caplog.at_level(logging.WARNING, logger="towerpack_dataflow"):
        assert sorted(flow) == [[i] for i in range(1, 12, 2)]
        assert len(list(flow)) == 6
    (record,) = caplog.records
    assert "MapData(odd) returned None, which drops the datapoint: len() was too large" in record.getMessage()
    assert not flow.addressable
    with pytest.raises(
        TypeError, match=r"MapData\(odd\) drops datapoints, so the length of a pass is unknown"
    ):
        len(flow)


def test_a_second_iterator_that_meets_the_drop_later_has_an_exact_state():
    flow = MapData(
        DataFromList([[i] for i in range(9)], shuffle=False), lambda dp: None if dp[0] == 4 else dp
    )
    flow.seed(0)
    one, two = iter(flow), iter(flow)
    assert len(list(one)) == 8
    got = [next(two) for _ in range(6)]
    fresh = MapData(
        DataFromList([[i] for i in range(9)], shuffle=False), lambda dp: None if dp[0] == 4 else dp
    )
    fresh.load_state_dict(flow.state_dict())
    assert got + list(fresh) == [[i] for i in range(9) if i != 4]


def test_random_access_to_a_dropped_datapoint():
    flow = MapData(DataFromList([[1], [2]], shuffle=False), odd)
    assert flow.datapoint(0, 0) == [1]
    with pytest.raises(NotAddressableError, match=r"turned out to drop datapoints.*drops=True"):
        flow.datapoint(0, 1)


def test_a_declared_drop_resumes_without_calling_the_function_again():
    calls = []

    def counted(dp):
        calls.append(dp)
        return dp if dp[0] % 2 else None

    flow = MapData(source(1000), counted, drops=True)
    iterator = iter(flow)
    for _ in range(400):
        next(iterator)
    state = flow.state_dict()
    fresh = MapData(source(1000), counted, drops=True)
    fresh.load_state_dict(state)
    calls.clear()
    next(iter(fresh))
    assert len(calls) < 30


def test_in_place_changes_do_not_reach_the_source():
    data = [[1], [2]]
    flow = MapData(MapData(DataFromList(data, shuffle=False), double), double)
    assert list(flow) == list(flow) == [[4], [8]]
    assert data == [[1], [2]]


def test_func_must_be_callable():
    with pytest.raises(ArgumentTypeError, match="MapData takes a function of a datapoint; received int"):
        MapData([[1]], 5)


@pytest.mark.parametrize("numbers", [[0, 0, 1, 4, 3], [0, 0, 1], [0, 7, 1, 4], [3, 0, 1, 4], [0, 0, 5, 9]])
def test_a_mark_that_is_not_of_this_map_and_pass_is_of_no_use(numbers):
    flow = MapData(range(9), lambda number: number if number % 2 else None, drops=True)
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 2, "marks": {"": numbers}})
    assert list(flow) == [5, 7]


def test_a_mark_avoids_repeating_datapoints():
    read = []
    flow = MapData(
        range(9), lambda number: read.append(number) or (number if number % 2 else None), drops=True
    )
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 2, "marks": {"": [0, 0, 2, 4]}})
    iterator = iter(flow)
    assert next(iterator) == 5
    assert read == [4, 5]
    assert flow.state_dict()["marks"] == {"": [0, 0, 3, 6]}
