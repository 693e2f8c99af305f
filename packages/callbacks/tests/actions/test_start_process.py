"""Threads and processes that live as long as the training."""

import subprocess
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from towerpack_callbacks import Callback, StartProcOrThread


class Worker(threading.Thread):
    """Lives until it is told to stop."""

    def __init__(self):
        super().__init__()
        self._end = threading.Event()

    def run(self):
        self._end.wait()

    def stop(self):
        self._end.set()


class Alive(Callback):
    """Asks at each step whether they live."""

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
    """A process that ends when it is told to."""

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


def test_one_that_shall_go_on_is_left_alone(line):
    worker = Worker()
    assert line.run([StartProcOrThread(worker, stop_at_last=False)]) == 6
    assert worker.is_alive()
    worker.stop()
    worker.join()


def test_what_was_never_started_is_not_stopped():
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


def test_what_cannot_be_started():
    with pytest.raises(TypeError, match=r"takes objects with a start\(\) method, received 3"):
        StartProcOrThread([Worker(), 3])
