import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    ProxyDataFlow,
    Suggestion,
    UnknownLengthError,
    autotune,
)
from towerpack_dataflow.runtime._suggest_workers import available_cpus, suggest_workers

MB = 2**20


def test_no_more_than_the_consumer_can_use():
    assert suggest_workers(0.010, 0, consumer=0.003, cpus=64).workers == 4
    assert suggest_workers(0.010, 0, consumer=0.005, cpus=64).workers == 2
    assert suggest_workers(0.010, 0, consumer=0.100, cpus=64).workers == 1


def test_no_more_than_the_processors_can_serve():
    assert suggest_workers(0.010, 0, cpus=4).workers == 4
    assert suggest_workers(0.010, 0, cpus=1.5).workers == 2
    assert suggest_workers(0.010, 0, cpus=4, computing=0.5).workers == 8
    assert suggest_workers(0.010, 0, cpus=1, computing=0.0).workers == 20


def test_no_more_than_fit_into_memory():
    suggestion = suggest_workers(1.0, 100 * MB, cpus=64, memory=2000 * MB)
    assert suggestion.workers == 4
    assert str(suggestion) == "4 workers: more would use over 2097 MB"


def test_no_more_than_can_be_received():
    assert suggest_workers(0.0769 * 5, 38.5e6, cpus=64, memory=1e12).workers == 50
    assert suggest_workers(30e-6, 0, cpus=64).reason == "more could not be received in time"


def test_cheap_datapoints_stay_where_they_are():
    suggestion = suggest_workers(2e-6, 8, cpus=64)
    assert str(suggestion) == "no workers: a datapoint takes 2.0 us to make and about 3.0 us to send"
    assert str(suggest_workers(0.010, 0, cpus=1)) == "1 worker: as many as 1 processor can serve"


@given(
    seconds=st.floats(0, 1e3),
    size=st.floats(0, 1e12),
    computing=st.floats(0, 1),
    consumer=st.floats(0, 1e3),
    cpus=st.floats(0.1, 1e3),
    memory=st.floats(0, 1e13),
)
def test_always_a_number_within_the_budget(seconds, size, computing, consumer, cpus, memory):
    suggestion = suggest_workers(
        seconds, size, computing=computing, consumer=consumer, cpus=cpus, memory=memory
    )
    assert 0 <= suggestion.workers <= 20 * cpus + 1
    assert suggestion.workers <= 1 or suggestion.workers * size <= memory
    assert suggestion.reason


def test_processors_of_this_process():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert 1 <= available_cpus() <= len(allowed)


@pytest.mark.parametrize(
    "quota, cpus", [("max 100000", 8), ("250000 100000", 2.5), ("10000 100000", 1), ("?", 8)]
)
def test_a_control_group_may_allow_less(quota, cpus, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert available_cpus(tmp_path / "cpu.max") == cpus
    assert available_cpus(tmp_path / "missing") == 8


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a function says so."""

    class Clock:
        now = computed = 0.0

        def work(self, seconds, computing=1.0):
            self.now += seconds
            self.computed += seconds * computing

    clock = Clock()
    module = "towerpack_dataflow.runtime._suggest_workers"
    monkeypatch.setattr(f"{module}.perf_counter", lambda: clock.now)
    monkeypatch.setattr(f"{module}.thread_time", lambda: clock.computed)
    # The functions below are copied by value, and this must not be.
    monkeypatch.setattr(f"{module}._copy", lambda flow: flow)
    return clock


def test_a_flow_is_measured(clock):
    def slow(dp):
        clock.work(0.010, computing=0.5)
        return dp

    flow = MapData(DataFromList([np.zeros(10**6, np.uint8)] * 100), slow)
    assert autotune(flow, cpus=3).workers == 6
    assert autotune(flow, cpus=3, consumer=0.005).workers == 2
    assert autotune(flow, cpus=64, memory=200e6).workers == 3


def test_measuring_stops_in_time(clock):
    calls = []

    def slow(dp):
        calls.append(dp)
        clock.work(1.0)
        return dp

    assert autotune(MapData(range(10**6), slow), cpus=5).workers == 5
    assert len(calls) == 2


def test_the_flow_stays_as_it_is():
    class Opens(ProxyDataFlow):
        opened = False

        def reset_state(self):
            super().reset_state()
            self.opened = True

    flow = Opens(DataFromGenerator(lambda: iter(range(10))))
    flow.seed(3)
    state = flow.state_dict()
    assert autotune(flow).reason
    assert not flow.opened
    assert flow.state_dict() == state


def test_an_uncopyable_or_short_flow_gets_one_worker_per_processor():
    for flow in (DataFromGenerator(i for i in range(9)), DataFromList([[1]])):
        suggestion = autotune(flow, cpus=3.5)
        assert suggestion.workers == 3
        assert "cannot be measured" in suggestion.reason


def test_auto_is_decided_when_the_workers_start(monkeypatch):
    flow = MultiProcessRunner(MapData(range(100), float), "auto")
    assert flow._num_workers == "auto"
    monkeypatch.setattr(
        "towerpack_dataflow.runtime._parallel_flow.autotune", lambda ds: Suggestion(2, "of a test")
    )
    assert list(flow) == list(map(float, range(100)))
    assert flow._worker_count == 2


def test_a_message_does_not_decide(monkeypatch):
    monkeypatch.delattr("towerpack_dataflow.runtime._parallel_flow.autotune")
    with pytest.raises(UnknownLengthError, match=r"MultiProcessRunner\(auto\) skips datapoints that fail"):
        len(MultiProcessRunner(MapData(range(100), float), "auto", on_error="skip"))


def test_auto_means_one_worker_at_least_and_one_for_a_stream(clock):
    assert MultiProcessRunner(MapData(range(100), float), "auto")._worker_count == 1
    stream = DataFromGenerator(lambda: iter(range(100)))
    assert MultiProcessRunner(stream, "auto")._worker_count == 1
    assert MultiProcessMapData(stream, "auto", float)._worker_count == 1


def test_other_words_are_refused():
    message = "num_workers is an integer from 0 up, or \"auto\"; received 'many'"
    with pytest.raises(ArgumentError, match=message):
        MultiProcessRunner([[1]], "many")
