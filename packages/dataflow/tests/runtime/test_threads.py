import gc
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resources import resources

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    get_worker_info,
)
from towerpack_dataflow.testing import check_dataflow, same


def noisy(dp, rng):
    return [*dp, rng.random()]


def some(dp, rng):
    return dp if rng.random() < 0.9 else None


def numbers(count, **options):
    return DataFromList([[number] for number in range(count)], **options)


def twice(build):
    """The same flow with and without threads."""
    plain, threaded = build(lambda ds: ds), build(lambda ds: MultiThreadRunner(ds, 3))
    plain.seed(5)
    threaded.seed(5)
    return plain, threaded


@pytest.mark.parametrize(
    "build",
    [
        lambda run: run(MapData(numbers(300), noisy, rng=True)),
        lambda run: run(BatchData(MapData(numbers(300), some, rng=True), 4)),
        lambda run: BatchData(run(MapData(run(numbers(300)), some, rng=True, drops=True)), 4),
        lambda run: run(DataFromGenerator(lambda: ([number] for number in range(50)))),
    ],
)
def test_threads_change_nothing(build):
    plain, threaded = twice(build)
    for _ in range(3):
        assert same(list(plain), list(threaded))


@pytest.mark.slow
def test_flows_with_threads_conform():
    check_dataflow(MultiThreadRunner(MapData(numbers(30), noisy, rng=True), 2))
    check_dataflow(MultiThreadRunner(numbers(30), 2, ordered=False).ds)
    check_dataflow(MultiThreadMapData(numbers(30), 2, noisy, rng=True))
    check_dataflow(MultiThreadMapData(numbers(30), 2, some, rng=True, drops=True))
    check_dataflow(MultiThreadRunner(DataFromGenerator(lambda: ([n] for n in range(9))), 2))


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 200), threads=st.integers(1, 4), stop=st.integers(0, 200))
def test_a_threaded_map_that_drops_resumes_anywhere(size, threads, stop):
    plain = MapData(numbers(size), some, rng=True)
    threaded = MultiThreadMapData(numbers(size), threads, some, rng=True)
    plain.seed(1)
    threaded.seed(1)
    expected = list(plain)
    iterator = iter(threaded)
    got = [datapoint for _, datapoint in zip(range(min(stop, len(expected))), iterator)]
    resumed = MultiThreadMapData(numbers(size), 2, some, rng=True)
    resumed.load_state_dict(threaded.state_dict())
    assert got + list(resumed) == got + list(iterator) == expected


def test_an_error_in_a_thread_is_the_users_error():
    def divide(dp):
        return [1 / dp[0]]

    flow = MultiThreadRunner(MapData(numbers(9, shuffle=False), divide), 2)
    with pytest.raises(ZeroDivisionError) as caught:
        list(flow)
    assert "MapData(test_an_error" in caught.value.__notes__[0]
    assert "in divide" in str(caught.value.__cause__)


def test_threads_hand_over_exactly_the_made_datapoints():
    lock = threading.Lock()
    held = DataFromList([[np.ones(100), lock]], shuffle=False)
    ((array, same_lock),) = MultiThreadRunner(held, 2)
    assert array.tolist() == [1.0] * 100 and same_lock is lock


def test_without_a_global_lock_workers_are_threads(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    flow = MultiProcessRunner(MapData(numbers(9, shuffle=False), lambda dp: [*dp, threading.Lock()]), 2)
    assert [number for number, _ in flow] == list(range(9))
    flow = MultiProcessMapData(numbers(9, shuffle=False), 2, lambda dp: [threading.get_ident(), os.getpid()])
    found = list(flow)
    assert {process for _, process in found} == {os.getpid()}
    assert threading.get_ident() not in {thread for thread, _ in found}
    asked = MultiProcessRunner(MapData(numbers(1), lambda dp: [os.getpid()]), 1, start_method="fork")
    assert list(asked) != [[os.getpid()]]


@pytest.mark.parametrize("kind", [MultiThreadMapData, partial(MultiProcessMapData, start_method="thread")])
def test_a_runner_may_be_collected_in_one_of_its_threads(kind):
    left, ended = threading.Event(), threading.Event()

    def collect(dp):
        if dp[0]:
            left.wait(10)
            gc.collect()
            ended.set()
        return dp

    gc.disable()  # else it might be collected in this thread
    try:
        flow = kind(numbers(2, shuffle=False), 1, collect)
        flow.length = flow.__len__  # a circle, so that it takes the collector
        assert next(iter(flow)) == [0]
        del flow
        left.set()
        assert ended.wait(10)
    finally:
        gc.enable()


def test_copies_are_never_threads(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert MultiProcessRunner(numbers(9), 2, replicate=True)._options.start_method == "spawn"
    with pytest.raises(ArgumentError, match="threads share one flow"):
        MultiProcessRunner(numbers(9), 2, replicate=True, start_method="thread")


def test_threads_know_who_they_are_and_begin_with_the_users_function():
    begun = []

    def begin(number):
        begun.append((number, get_worker_info()))

    flow = MultiProcessMapData(
        numbers(40), 2, lambda dp: [get_worker_info()], start_method="thread", worker_init_fn=begin
    )
    assert {tuple(info) for (info,) in flow} <= {(0, 2), (1, 2)}
    assert sorted(begun) == [(0, (0, 2)), (1, (1, 2))]
    assert get_worker_info() is None


def test_a_failure_at_the_start_of_a_thread_is_the_users_error():
    def begin(number):
        raise FileNotFoundError("no data here")

    flow = MultiProcessMapData(numbers(9), 2, list, start_method="thread", worker_init_fn=begin)
    with pytest.raises(FileNotFoundError, match="no data here"):
        list(flow)


def test_why_a_thread_has_gone_is_said_while_its_inputs_are_sent():
    def begin(number):
        raise FileNotFoundError("no data here")

    for _ in range(200):  # a race: the thread ends before, while or after the first range is handed out
        flow = MultiProcessMapData(numbers(99), 2, list, start_method="thread", worker_init_fn=begin)
        with pytest.raises(FileNotFoundError, match="no data here"):
            list(flow)


def test_threads_end_with_their_runner():
    before = resources()
    runner = MultiThreadRunner(numbers(5), 4)
    assert len(list(runner)) == 5
    assert len(set(threading.enumerate()) - before) == 4
    del runner
    assert not resources() - before
