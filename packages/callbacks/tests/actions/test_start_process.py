"""Threads and processes that run during the training."""

import subprocess
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from towerpack_callbacks import Callback, StartProcOrThread


class Worker(threading.Thread):
    """Runs until it is stopped."""

    def __init__(self):
        super().__init__()
        self._end = threading.Event()

    def run(self):
        self._end.wait()

    def stop(self):
        self._end.set()


class Alive(Callback):
    """Checks at each step whether they are alive."""

    def __init__(self, workers):
        self.workers, self.alive = workers, []

    def _trigger_step(self):
        self.alive.append(all(worker.is_alive() for worker in self.workers))


def test_threads(line):
    workers = [Worker(), Worker()]
    alive = Alive(workers)
    line.run([StartProcOrThread(workers), alive], steps_per_epoch=2, max_epoch=1)
    assert alive.alive == [True, True]
    assert not any(worker.is_alive() for worker in workers)


class Sleeper:
    """A process that ends on request."""

    def start(self):
        self.process = subprocess.Popen(["sleep", "1000"])

    def terminate(self):
        self.process.terminate()

    def join(self):
        self.process.wait()

    def is_alive(self):
        return self.process.poll() is None


def test_a_process(line):
    process = Sleeper()
    alive = Alive([process])
    line.run([StartProcOrThread(process), alive], steps_per_epoch=1, max_epoch=1)
    assert alive.alive == [True]
    assert process.process.returncode == -15


def test_a_thread_may_outlive_the_training(line):
    worker = Worker()
    assert line.run([StartProcOrThread(worker, stop_at_last=False)]) == 6
    assert worker.is_alive()
    worker.stop()
    worker.join()


def test_objects_that_never_started_are_not_stopped():
    calls = []
    methods = ("start", "stop", "join")
    worker = SimpleNamespace(**{name: partial(calls.append, name) for name in methods})
    callback = StartProcOrThread(worker)
    callback._after_train()
    assert calls == []
    callback._before_train()
    callback._after_train()
    callback._after_train()
    assert calls == ["start", "stop", "join"]


def test_objects_without_start():
    with pytest.raises(TypeError, match=r"takes objects with a start\(\) method, received 3"):
        StartProcOrThread([Worker(), 3])
