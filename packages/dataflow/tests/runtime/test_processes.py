"""Nothing is left behind after any kind of end; scripts need no main guard."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ENDLESS = """
import os, sys, threading
import numpy as np
from towerpack_dataflow import *

def work(dp):
    if dp[0] >= 20:
        HANG
    return [np.full(10**6, dp[0] % 256, np.uint8)]

flow = MapData(RepeatedData(DataFromList([[i] for i in range(100)], shuffle=False), 1000), work)
flow = BUILD
for number, datapoint in enumerate(flow):
    if number == 5:
        print("running", flush=True)
"""


def runner(below, workers, method="spawn"):
    return f'MultiProcessRunner({below}, {workers}, start_method="{method}")'


SINGLE = runner("flow", 2)
NESTED = f'MultiProcessMapData({runner(runner("flow", 1), 2)}, 2, list, start_method="spawn")'
TOWER = runner(runner(runner("flow", 1), 1), 1)
FORKED = runner(runner("flow", 1, "fork"), 1, "fork")


def script(build, hang="pass"):
    return ENDLESS.replace("BUILD", build).replace("HANG", hang)


def heed_interrupts():
    """Background processes of shells ignore Ctrl-C, and so do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Running:
    """A script in a separate process group, and its children, found by a mark in the environment."""

    def __init__(self, code, mark, path=None):
        self.mark = f"TOWERPACK_TEST_MARK={mark}".encode()
        arguments = [sys.executable, "-W", "error", *(["-c", code] if path is None else [str(path)])]
        self.popen = subprocess.Popen(
            arguments,
            env={**os.environ, "TOWERPACK_TEST_MARK": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )

    def wait_until_running(self):
        assert self.popen.stdout.readline() == "running\n", self.popen.stderr.read()

    def alive(self):
        """Everything with the mark that is not a zombie."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def gone_after(self, seconds):
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end:
            os.sched_yield()
        return not self.alive()

    def finish(self):
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        self.popen.communicate()


@pytest.fixture
def run(request, tmp_path):
    started = []

    def start(code, path=None):
        started.append(Running(code, f"{request.node.name}-{os.getpid()}-{len(started)}", path))
        return started[-1]

    yield start
    for running in started:
        running.finish()


@pytest.mark.parametrize("build", [SINGLE, NESTED, FORKED], ids=["single", "nested", "forked"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(run, build, how):
    running = run(script(build))
    running.wait_until_running()
    assert len(running.alive()) > 2
    running.popen.send_signal(how)
    assert running.popen.wait(5) == -how
    assert running.gone_after(1.0)
    assert running.popen.stderr.read() == ""


def test_workers_of_a_killed_worker_end_with_it(run):
    running = run(script(TOWER))
    running.wait_until_running()
    descendants = running.alive()
    (worker,) = (pid for pid in descendants if parent_of(pid) == running.popen.pid)
    assert len(descendants) == 4
    os.kill(worker, signal.SIGKILL)
    _, errors = running.popen.communicate(timeout=10)
    assert f"WorkerDiedError: worker 0 (process {worker}) was killed by SIGKILL" in errors
    assert running.gone_after(1.0)


def test_workers_that_hang_end_with_their_parent(run):
    running = run(script(SINGLE, "threading.Event().wait()"))
    running.wait_until_running()
    running.popen.kill()
    assert running.gone_after(1.0)


@pytest.mark.parametrize("build", [SINGLE, NESTED, FORKED], ids=["single", "nested", "forked"])
def test_ctrl_c_is_one_keyboard_interrupt(run, build):
    running = run(script(build))
    running.wait_until_running()
    os.killpg(running.popen.pid, signal.SIGINT)  # as a terminal does
    _, errors = running.popen.communicate(timeout=10)
    assert errors.count("KeyboardInterrupt") == 1 and errors.count("Traceback") == 1, errors
    assert running.popen.returncode == -signal.SIGINT
    assert running.gone_after(0.5)


GOOD = """
import functools, sys
from towerpack_dataflow import *

class Doubler:
    def __call__(self, dp):
        return [dp[0] * factor()]

class Letters(DataFlow):
    def __iter__(self):
        yield from ([letter] for letter in "abc")

@functools.cache
def factor():
    return FACTOR

def build(shift):
    class Local:
        def apply(self, dp):
            return [dp[0] + shift]
    return Local().apply

FACTOR = 2
print("main runs", flush=True)
flow = MapData(MapData(DataFromList([[i] for i in range(6)], shuffle=False), Doubler()), build(1))
runner = MultiProcessRunner(MultiProcessMapData(flow, 1, lambda dp: [dp[0] + FACTOR]), 2)
print(list(runner), list(runner), flush=True)
print(list(MultiProcessRunner(Letters(), 2)), flush=True)
next(iter(runner))
"""
SEEN = ["main runs", str([[3], [5], [7], [9], [11], [13]]) + " " + str([[3], [5], [7], [9], [11], [13]])]


@pytest.mark.parametrize("as_file", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_script_needs_no_main_guard(run, tmp_path, as_file):
    path = tmp_path / "script.py"
    path.write_text(GOOD)
    running = run(GOOD, path if as_file else None)
    output, errors = running.popen.communicate(timeout=30)
    assert errors == ""
    assert output.splitlines() == [*SEEN, "[['a'], ['b'], ['c']]"]
    assert running.popen.returncode == 0
    assert running.gone_after(1.0)


@pytest.mark.long
def test_leaving_with_an_error_or_exit_takes_the_workers_along(run):
    endings = ("sys.exit(7)", "raise ValueError('mine')", "del runner; import gc; gc.collect()")
    for last, running in [(last, run(GOOD + last)) for last in endings]:
        _, errors = running.popen.communicate(timeout=60)
        assert running.gone_after(0.5)
        assert errors.count("Traceback") == ("mine" in last)


def test_no_named_memory_is_used(run):
    code = script(SINGLE).replace('print("running"', 'print(open("/proc/self/maps").read()); print("running"')
    running = run(code)
    maps = "".join(iter(running.popen.stdout.readline, "running\n"))
    assert "/memfd:towerpack-slot" in maps and "/dev/shm" not in maps


FEW_FILES = """
import resource
from towerpack_dataflow import *
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
list(MultiProcessRunner(DataFromList([[1]]), 9))
"""


def test_running_out_of_files_is_said_clearly(run):
    running = run(FEW_FILES)
    _, errors = running.popen.communicate(timeout=30)
    assert "OSError: [Errno 24] cannot start worker" in errors and "Too many open files" in errors
    assert running.gone_after(0.5)


FORKING = """
import os, sys
from towerpack_dataflow import *
runner = MultiProcessRunner(DataFromList([[i] for i in range(9)], shuffle=False), 1, start_method="spawn")
iterator = iter(runner)
next(iterator)
pid = os.fork()
got = list(runner) if pid == 0 else list(iterator)
if pid == 0:
    runner._worker_pool.close()
    os._exit(0 if len(got) == 9 else 1)
print(len(got), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_of_the_parent_starts_separate_workers(run):
    output, errors = run(FORKING).popen.communicate(timeout=30)
    assert (output, errors) == ("8 0\n", "")


THREADS = """
import threading
from towerpack_dataflow import *
runner = MultiProcessRunner(DataFromList([[i] for i in range(2000)], shuffle=False), 2)
heads = []
thread = threading.Thread(target=lambda: heads.append(next(iter(runner))))
thread.start(); thread.join()
print(len(list(runner)), len(heads))
several = [iter(runner) for _ in range(3)]
print(sum(len(set(map(str, row))) for row in zip(*several)))
"""


def test_workers_outlive_the_thread_that_started_them(run):
    output, errors = run(THREADS).popen.communicate(timeout=30)
    assert (output, errors) == ("2000 1\n2000\n", "")


IN_THREAD = """
import ctypes, threading
from towerpack_dataflow import *

def stuck(dp):
    if dp[0] == 3:
        ctypes.PyDLL(None).sleep(300)  # holds the interpreter's lock
    return dp

runner = MultiProcessRunner(MapData([[i] for i in range(9)], stuck), 2, start_method=METHOD)

def read():
    for number, _ in enumerate(runner):
        if number == 2:
            print("running", flush=True)

thread = threading.Thread(target=read)
thread.start()
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_that_a_thread_started_and_that_are_stuck_in_c_end_with_their_parent(run, method):
    running = run(IN_THREAD.replace("METHOD", repr(method)))
    running.wait_until_running()
    assert len(running.alive()) == 3
    running.popen.kill()
    assert running.gone_after(2.0)
