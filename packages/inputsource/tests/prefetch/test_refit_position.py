"""A source's state, for other processes or batches of another size."""

import json

import pytest

from towerpack_dataflow import BatchData, DataFromList, FilterData, ShardData, StateError
from towerpack_inputsource import FeedInput, ProxyInputSource, QueueInput, RefittedState, TensorInput
from towerpack_inputsource.testing import ListFlow


def batches(index, count, size):
    numbers = DataFromList([[number] for number in range(24)], shuffle=False)
    return BatchData(ShardData(numbers, index, count), size, remainder=True)


def saved(flow, number):
    return {"flow": {**flow.state_at(number), "seed": 0}}


@pytest.mark.parametrize("kind", [FeedInput, QueueInput, lambda flow: ProxyInputSource(FeedInput(flow))])
def test_a_state_of_other_batches_is_translated(kind):
    state = saved(batches(0, 2, 2), 3)  # 12 datapoints are out
    flow = batches(1, 3, 3)
    refitted = kind(flow).refit(json.loads(json.dumps(state)))
    assert refitted == RefittedState(refitted.state, was=4, batch=9, next_then=3, next_now=1, seen=12)
    flow.load_state_dict(refitted.state["flow"])
    assert [batch[0].tolist() for batch in flow] == [[13, 16, 19], [22]]


def test_a_state_that_fits_stays_as_it_is():
    state = saved(batches(0, 2, 2), 3)
    assert FeedInput(batches(0, 1, 4)).refit(state) == RefittedState(state, 4, 4, 3, 3, 12)


def test_twice_in_one_pass():
    once = FeedInput(batches(0, 1, 9)).refit(saved(batches(0, 1, 4), 3))
    state = {"flow": {**once.state["flow"], "index": once.next_now + 1}}
    assert FeedInput(batches(0, 1, 9)).refit(state)[1:] == (9, 9, 2, 2, 21)
    assert FeedInput(batches(0, 1, 2)).refit(state)[1:] == (9, 2, 2, 10, 21)


@pytest.mark.parametrize(
    "flow", [ListFlow([[1]]), DataFromList([[1]]), [[1]]], ids=["no flow", "no batches", "a list"]
)
def test_nothing_is_known_of_other_data(flow):
    assert FeedInput(flow).refit(saved(batches(0, 1, 4), 3)) is None
    assert FeedInput(batches(0, 1, 4)).refit({"flow": None}) is None
    assert TensorInput(list).refit({}) is None


def test_batches_of_an_unknown_order_are_refused():
    def thinned(size):
        return BatchData(FilterData(ShardData(DataFromList([[1], [2], [3]]), 0, 2), bool), size)

    state = saved(batches(0, 1, 4), 3)
    state["flow"]["flow"] = thinned(1).state_dict()["flow"]
    with pytest.raises(StateError, match="lies between the batches and ShardData"):
        FeedInput(thinned(2)).refit(state)
