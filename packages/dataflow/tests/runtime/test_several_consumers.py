"""Several threads read one parallel flow; neither a thread nor the end of the process waits for another."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from time import monotonic

import cloudpickle
import pytest

from towerpack_dataflow import (
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
)
from towerpack_dataflow.runtime.pool import WorkerPool

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def numbers(count=300):
    return DataFromList([[number] for number in range(count)], shuffle=False)


MAKERS = {
    "forked": lambda: MultiProcessRunner(numbers(), 2, start_method="fork"),
    "fresh": lambda: MultiProcessRunner(numbers(), 2),
    "threads": lambda: MultiThreadRunner(numbers(), 2),
    "map": lambda: MultiProcessMapData(numbers(), 2, list, start_method="fork"),
    "auto": lambda: MultiProcessRunner(numbers(), "auto", start_method="fork"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_threads_that_begin_at_once(make):
    """All read whole passes, and there is one set of workers."""
    for _ in range(3):
        flow = make()
        gate = threading.Barrier(6)

        def read(flow=flow, gate=gate):
            gate.wait()
            return list(flow)

        with ThreadPoolExecutor(6) as executor:
            passes = [future.result() for future in [executor.submit(read) for _ in range(6)]]
        assert passes == [[[number] for number in range(300)]] * 6
        assert len(flow._worker_pool._workers) == flow._num_workers
        flow.close()


def test_a_pass_does_not_wait_for_the_slow_datapoint_of_another_one():
    release, stuck = threading.Event(), threading.Event()
    calls = count()

    def wait(dp):
        if dp[0] == 0 and next(calls) == 0:
            stuck.set()
            release.wait(60)
        return dp

    # So many that the slow pass cannot be handed out whole: then the next one would be begun ahead.
    flow = MultiThreadRunner(MapData(numbers(3000), wait), 4, prefetch_bytes=1)
    slow = threading.Thread(target=lambda: next(iter(flow)), daemon=True)
    slow.start()
    stuck.wait(60)
    # After half a second the pool counts a worker as stuck; it may have noticed late that it has begun.
    while min(worker.busy_since for worker in flow._worker_pool._workers) > monotonic() - 0.6:
        threading.Event().wait(0.05)
    assert list(flow) == [[number] for number in range(3000)]
    assert slow.is_alive()
    release.set()
    slow.join(60)
    assert not slow.is_alive()
    flow.close()


def test_a_pass_does_not_wait_for_the_slow_source_of_another_one():
    release, waiting = threading.Event(), threading.Event()
    starts = iter([True])

    def source():
        yield [0]
        if next(starts, False):
            waiting.set()
            release.wait(60)
        yield [1]

    flow = MultiProcessMapData(DataFromGenerator(source), 2, list, start_method="fork")
    slow = threading.Thread(target=lambda: list(flow), daemon=True)
    slow.start()
    waiting.wait(60)
    assert list(flow) == [[0], [1]]
    release.set()
    slow.join(60)
    assert not slow.is_alive()
    flow.close()


EXIT = """
import threading
from towerpack_dataflow import *

begun = threading.Event()

def slow(dp):
    threading.Event().wait(300)

def source():
    yield [0]
    begun.set()
    threading.Event().wait(300)
    yield [1]

FLOW
def read():
    iterator = iter(flow)
    next(iterator)
    begun.set()
    next(iterator)

threading.Thread(target=read, daemon=True).start()
begun.wait(60)
for _ in range(1000):
    pass
print("ends", flush=True)
"""
WAITING = {
    "worker": "flow = MultiProcessRunner(MapData([[0], [1]], lambda dp: slow(dp) if dp[0] else dp), 1)",
    "thread": "flow = MultiThreadRunner(MapData([[0], [1]], lambda dp: slow(dp) if dp[0] else dp), 1)",
    "source": "flow = MultiProcessMapData(DataFromGenerator(source), 1, list)",
}


@pytest.mark.parametrize("flow", WAITING.values(), ids=WAITING)
def test_the_process_ends_while_a_thread_waits(flow):
    script = [sys.executable, "-c", EXIT.replace("FLOW", flow)]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("ends\n", 0), ended.stderr


def test_a_closed_flow_wakes_the_thread_that_waits():
    release = threading.Event()
    flow = MultiThreadRunner(MapData(numbers(9), lambda dp: release.wait(60) and dp), 2)
    failed = []

    def read():
        try:
            next(iter(flow))
        except Exception as error:
            failed.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while flow._worker_pool is None or not flow._worker_pool._waiting:
        pass
    closing = threading.Thread(target=flow.close)
    closing.start()
    thread.join(60)
    release.set()
    closing.join(60)
    assert "were ended while it was being read" in failed[0]


def test_heads_of_many_passes():
    flow = MultiProcessRunner(numbers(), 2, start_method="fork")
    with ThreadPoolExecutor(4) as executor:
        heads = list(executor.map(lambda _: list(islice(iter(flow), 3)), range(40)))
    assert heads == [[[0], [1], [2]]] * 40
    flow.close()


def test_a_consumer_does_not_wait_for_workers_that_others_have_emptied(monkeypatch, caplog):
    paused, goes_on = threading.Event(), threading.Event()
    fill_tasks = WorkerPool._fill_tasks

    def find_workers_full(pool, this):
        if threading.current_thread() is consumer and not paused.is_set():
            paused.set()
            goes_on.wait(20)
        else:
            fill_tasks(pool, this)

    monkeypatch.setattr(WorkerPool, "_fill_tasks", find_workers_full)
    flow = MultiThreadRunner(DataFromList(list(range(50)), shuffle=False), 2, stall_warning=5)
    read = []
    consumer = threading.Thread(target=lambda: read.extend(flow))
    consumer.start()
    assert paused.wait(20)
    assert list(flow) == list(range(50))
    goes_on.set()
    consumer.join(30)
    assert read == list(range(50)) and not caplog.messages
    flow.close()
