"""Workers end on request, or after a timeout; without workers, datapoints are the same."""

import copy
import os
import sys
import threading
from itertools import islice
from time import monotonic

import cloudpickle
import numpy as np
import pytest
from resources import resources

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    DatapointTimeoutError,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    RNGDataFlow,
    WorkerDiedError,
    WorkerError,
    get_worker_info,
)
from towerpack_dataflow.testing import check_dataflow, same

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def numbers(count=30, shuffle=False):
    return DataFromList([[number] for number in range(count)], shuffle=shuffle)


def noisy(dp, rng):
    return [dp[0], rng.random()]


def fork(ds, workers=2, **options):
    return MultiProcessRunner(ds, workers, start_method="fork", **options)


def fork_map(ds, workers=2, func=list, **options):
    return MultiProcessMapData(ds, workers, func, start_method="fork", **options)


FLOWS = {
    "runner": lambda n: MultiProcessRunner(MapData(numbers(shuffle=True), noisy, rng=True), n),
    "unordered": lambda n: MultiProcessRunner(numbers(), n, ordered=False),
    "batches": lambda n: MultiProcessRunner(BatchData(numbers(), 4), n),
    "stream": lambda n: MultiProcessRunner(DataFromGenerator(lambda: ([i] for i in range(9))), n),
    "map": lambda n: MultiProcessMapData(numbers(shuffle=True), n, noisy, rng=True),
    "map and batch": lambda n: MultiProcessMapAndBatchData(numbers(), n, list, 4),
    "map and batch of a stream": lambda n: MultiProcessMapAndBatchData(
        DataFromGenerator(lambda: ([i] for i in range(9))), n, list, 4
    ),
    "threads": lambda n: MultiThreadRunner(MapData(numbers(), noisy, rng=True), n),
    "map of threads": lambda n: MultiThreadMapData(numbers(), n, noisy, rng=True),
}
all_flows = pytest.mark.parametrize("make", FLOWS.values(), ids=FLOWS)


def seeded(flow):
    flow.seed(3)
    return flow


@all_flows
def test_without_workers_the_datapoints_are_the_same(make):
    inline, workers = seeded(make(0)), seeded(make(1))
    for _ in range(2):
        assert same(list(inline), list(workers))
    workers.close()
    check_dataflow(make(0), positions=3)


def test_without_workers_datapoints_are_made_in_this_process_when_wanted():
    made = []

    def func(dp):
        made.append((dp[0], os.getpid(), get_worker_info()))
        return dp

    assert len(list(islice(MultiProcessRunner(MapData(numbers(), func), 0), 2))) == 2
    assert made == [(0, os.getpid(), None), (1, os.getpid(), None)]


@pytest.mark.parametrize("make", [fork, fork_map])
def test_without_workers_errors_are_treated_alike(make):
    def func(dp):
        if dp[0] in {3, 7}:
            raise KeyError(dp[0])
        return dp

    skipping = make(MapData(numbers(10), list), 0, on_error="skip") if make is fork else None
    if skipping is None:
        skipping = fork_map(numbers(10), 0, func, on_error="skip")
        assert [n for (n,) in skipping] == [0, 1, 2, 4, 5, 6, 8, 9]
    failing = fork(MapData(numbers(10), func), 0) if make is fork else fork_map(numbers(10), 0, func)
    iterator = iter(failing)
    assert [next(iterator) for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(KeyError) as caught:
        next(iterator)
    assert "datapoint 3 of epoch 0" in caught.value.__notes__[0]


@all_flows
def test_closed_flows_end_their_workers_and_can_be_used_again(make):
    before = resources()
    with seeded(make(2)) as flow:
        first = list(flow)
        flow.close()
        flow.close()
        assert not resources() - before
        iterator = iter(flow)
        next(iterator)
    assert not resources() - before
    if "thread" not in type(flow).__name__.lower():
        flow.load_state_dict({"seed": 3, "epoch": 0, "index": 0})
        if "unordered" not in str(make):
            assert len(list(flow)) == len(first)
    flow.close()


def test_closing_ends_flows_below_and_iterators_raise():
    below = fork(numbers(5000))
    flow = fork_map(below)
    iterator = iter(flow)
    next(iterator)
    flow.close()
    assert not below._worker_pool.running and not flow._worker_pool.running
    with pytest.raises(WorkerDiedError, match="were ended while it was being read"):
        list(iterator)


def test_copies_start_separate_workers():
    flow = fork(numbers())
    assert (
        list(flow) == list(copy.deepcopy(flow)) == list(cloudpickle.loads(cloudpickle.dumps(fork(numbers()))))
    )
    flow.close()


def slow_at(*places):
    def func(dp):
        if dp[0] in places:
            threading.Event().wait(250)
        return dp

    return func


TIMED = {
    "runner": lambda func, **options: fork(MapData(numbers(), func), **options),
    "map": lambda func, **options: fork_map(numbers(), 2, func, **options),
    "threads": lambda func, **options: MultiThreadRunner(MapData(numbers(), func), 2, **options),
    "map of threads": lambda func, **options: MultiThreadMapData(numbers(), 2, func, **options),
    "fresh": lambda func, **options: MultiProcessRunner(MapData(numbers(), func), 1, **options),
}


@pytest.mark.parametrize("make", TIMED.values(), ids=TIMED)
def test_a_datapoint_that_takes_too_long_is_named(make):
    flow = make(slow_at(7), timeout=0.3)
    read = []
    begin = monotonic()
    with pytest.raises(
        DatapointTimeoutError, match=r"datapoint 7 of epoch 0 took .* timeout=0.3 s"
    ) as caught:
        read.extend(map(tuple, flow))
    assert monotonic() - begin < 100 and isinstance(caught.value, TimeoutError)
    flow.close()
    iterator = iter(flow)
    assert [next(iterator) for _ in range(7)] == [[number] for number in range(7)]
    flow.close()


@pytest.mark.parametrize("make", list(TIMED.values())[:4], ids=list(TIMED)[:4])
def test_a_datapoint_that_takes_too_long_is_left_out(make, caplog):
    flow = make(slow_at(3, 20), timeout=0.3, on_error="skip")
    assert [number for (number,) in flow] == [n for n in range(30) if n not in {3, 20}]
    assert any("skipped 2 datapoints" in message for message in caplog.messages)
    flow.close()


@pytest.mark.parametrize("make", [TIMED["runner"], TIMED["map"]])
def test_a_datapoint_that_takes_too_long_is_tried_again(make, tmp_path):
    def slow_once(dp):
        mark = tmp_path / str(dp[0])
        if dp[0] == 5 and not mark.exists():
            mark.touch()
            threading.Event().wait(30)
        return dp

    flow = make(slow_once, timeout=0.3, on_error="retry")
    assert list(flow) == [[number] for number in range(30)]
    flow.close()
    flow = make(slow_at(5), timeout=0.2, on_error="retry")
    with pytest.raises(DatapointTimeoutError, match="datapoint 5"):
        list(flow)
    flow.close()


def test_a_consumer_that_is_away_does_not_make_datapoints_late():
    flow = fork(numbers(), timeout=0.2)
    iterator = iter(flow)
    read = [next(iterator)]
    threading.Event().wait(0.5)
    assert read + list(iterator) == [[number] for number in range(30)]
    flow.close()


class Slow(DataFlow):
    """A stream, of which 30 datapoints take more than a second."""

    def __iter__(self):
        for number in range(30):
            threading.Event().wait(30 if number == 28 else 0.04)
            yield [number]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fork(Slow(), timeout=0.5),
        lambda: MultiThreadRunner(Slow(), 1, timeout=0.5),
    ],
)
def test_datapoints_that_a_resumed_stream_makes_again_have_their_time(make):
    flow = make()
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 26})
    iterator = iter(flow)
    assert [next(iterator), next(iterator)] == [[26], [27]]
    with pytest.raises(DatapointTimeoutError, match=r"datapoint 28 of epoch 0 took .* timeout=0.5 sec"):
        next(iterator)
    flow.close()


def test_a_stream_is_not_read_while_an_abandoned_thread_reads_it():
    goes_on, before = threading.Event(), threading.enumerate()

    class Noise(RNGDataFlow):
        def __iter__(self):
            for number in range(4):
                if number == 2:
                    goes_on.wait(30)
                yield [float(self.rng.normal())]

    flow = MultiThreadRunner(Noise(), 1, timeout=0.3)
    flow.seed(1)
    with pytest.raises(DatapointTimeoutError, match="datapoint 2"):
        list(flow)
    late = next(thread for thread in threading.enumerate() if thread not in before)
    state = {"seed": 1, "epoch": 0, "index": 0}
    flow.load_state_dict(state)
    with pytest.raises(WorkerError, match=r"thread .* is still at a datapoint of this stream.* try again"):
        list(flow)
    goes_on.set()
    late.join(20)
    flow.load_state_dict(state)
    alone = Noise()
    alone.seed(1)
    assert list(flow) == list(alone)
    flow.close()


def test_the_start_of_a_worker_takes_its_time():
    flow = fork(numbers(), worker_init_fn=lambda number: threading.Event().wait(0.6), timeout=0.3)
    assert len(list(flow)) == 30
    flow.close()


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"stall_warning": 0}, "stall_warning is a number of seconds above 0, or None.*received 0"),
        ({"stall_warning": "60"}, "received '60'"),
        ({"stall_warning": float("nan")}, "received nan"),
        ({"timeout": -1}, "timeout is a number of seconds above 0, or None"),
        ({"timeout": True}, "received True"),
        ({"timeout": "3"}, "received '3'"),
        ({"timeout": np.ones(2)}, "received array"),
        ({"num_workers": -1}, 'num_workers is an integer from 0 up, or "auto"'),
        ({"num_workers": 0, "timeout": 3}, "needs workers"),
        ({"num_workers": 0, "replicate": True}, "at least one worker"),
    ],
)
def test_arguments_are_checked_at_once(options, pattern):
    with pytest.raises(ArgumentError, match=pattern):
        MultiProcessRunner(numbers(), **{"num_workers": 1, **options})


def test_an_init_function_is_one():
    with pytest.raises(ArgumentTypeError, match=r"worker_init_fn is a function .* received int"):
        MultiProcessRunner(numbers(), 1, worker_init_fn=3)


@pytest.mark.parametrize("stall_warning", [None, float("inf"), 10**30, np.float32(5)])
def test_no_warning_at_all(stall_warning):
    flow = fork(numbers(), stall_warning=stall_warning)
    assert len(list(flow)) == 30
    flow.close()
