"""Forked workers: separate random numbers, and no references to resources of others."""

import os
import random
import sys
import threading

import cloudpickle
import cv2
import numpy as np
import pytest

from towerpack_dataflow import (
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SIZE = 16


def drawn(datapoint):
    picture = np.zeros((1, 4), np.uint8)
    cv2.randu(picture, 0, 256)
    return [os.getpid(), np.random.random(), random.random(), picture.tobytes()]


def numbers():
    return DataFromList([[number] for number in range(SIZE)], shuffle=False)


def by_worker(flow):
    """Returns the numbers drawn by each worker, in order."""
    with flow:
        found = list(flow)
    return [[tuple(rest) for pid, *rest in found if pid == worker] for worker in {pid for pid, *_ in found}]


@pytest.mark.parametrize(
    ("method", "kind"), [("fork", "runner"), ("fork", "map"), ("fork", "replicate"), ("spawn", "runner")]
)
def test_global_generators_differ_from_worker_to_worker(method, kind):
    cv2.setRNGSeed(7)
    np.random.seed(0)
    random.seed(0)
    options = {"start_method": method}
    if kind == "map":
        flow = MultiProcessMapData(numbers(), 4, drawn, **options)
    else:
        replicate = kind == "replicate"
        flow = MultiProcessRunner(MapData(numbers(), drawn), 4, replicate=replicate, **options)
    found = [each for worker in by_worker(flow) for each in worker]
    assert len(found) == SIZE
    for place in range(3):
        assert len({each[place] for each in found}) == SIZE


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_global_generators_depend_on_the_seed_and_the_epoch(method):
    def draws(seed, epoch):
        runner = MultiProcessRunner(MapData(numbers(), drawn), 1, start_method=method)
        runner.seed(seed)
        runner.load_state_dict({**runner.state_dict(), "epoch": epoch})
        (found,) = by_worker(runner)
        return found

    assert draws(1, 0) == draws(1, 0)
    assert draws(1, 0) != draws(2, 0)
    assert draws(1, 0) != draws(1, 1)


def test_an_init_function_has_the_last_word():
    def init(number):
        np.random.seed(number)

    flow = MultiProcessRunner(MapData(numbers(), drawn), 1, start_method="fork", worker_init_fn=init)
    (found,) = by_worker(flow)
    assert found[0][0] == np.random.RandomState(0).random_sample()


def test_a_fork_does_not_wait_for_a_generator_that_a_thread_holds():
    lock = np.random.mtrand._rand._bit_generator.lock
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        flow = MultiProcessRunner(MapData(numbers(), drawn), 1, start_method="fork", stall_warning=20)
        (found,) = by_worker(flow)
        assert len(found) == SIZE
    finally:
        done.set()
        thread.join()


def ends(flow):
    """Closes a flow; returns how its workers ended."""
    workers = [worker.process for worker in flow._worker_pool._workers]
    flow.close()
    return [worker.how_it_ended() for worker in workers]


@pytest.mark.parametrize("methods", [("fork", "fork"), ("spawn", "fork")])
def test_a_runner_is_closed_while_workers_of_another_have_copies_of_its_connections(methods):
    runners = [MultiProcessRunner(numbers(), 2, start_method=method) for method in methods]
    for runner in runners:
        list(runner)
    for runner in runners:
        assert ends(runner) == ["exited with code 0"] * 2


def test_a_runner_is_closed_while_a_process_of_the_user_has_copies_of_its_connections():
    runner = MultiProcessRunner(numbers(), 2, start_method="fork")
    list(runner)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        assert ends(runner) == ["exited with code 0"] * 2
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


@pytest.mark.parametrize("runner", [MultiProcessRunner, MultiThreadRunner])
def test_a_fork_that_starts_workers_leaves_those_of_its_parent_alone(runner):
    flow = runner(numbers(), 2)
    expected = list(flow)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(list(flow) != expected)
            flow.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(flow) == expected
    flow.close()
