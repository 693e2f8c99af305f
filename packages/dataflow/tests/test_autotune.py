import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow._autotune import available_cpus, suggest_workers

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
    assert str(suggestion) == "no workers: a datapoint takes 2.0 us to make, and about 3.0 us to send"
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
    assert 1 <= available_cpus() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    "quota, cpus", [("max 100000", 8), ("250000 100000", 2.5), ("10000 100000", 1), ("?", 8)]
)
def test_a_control_group_may_allow_less(quota, cpus, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    monkeypatch.setattr("towerpack_dataflow._autotune.Path.read_text", lambda path: quota)
    assert available_cpus() == cpus
