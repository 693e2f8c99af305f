"""The wheel without POSIX: modules and functions that Windows lacks are hidden from a new interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

# Threads and files are all that is left. Python's own modules are imported before.
HIDE = """
import asyncio, concurrent.futures, ctypes, logging, mmap, multiprocessing, os, select, signal, socket
import subprocess, sys, tempfile

HIDDEN = {"fcntl", "resource", "pwd", "grp", "termios", "_posixshmem"}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for name in HIDDEN:
    sys.modules.pop(name, None)
for owner, names in {
    os: "memfd_create fork register_at_fork pread preadv pwrite pwritev getuid geteuid sched_getaffinity "
        "posix_fadvise statvfs fstatvfs mkfifo sysconf killpg setsid fchmod fchown chown waitid eventfd "
        "pipe2 pidfd_open O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOFOLLOW WNOHANG",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGQUIT pthread_sigmask setitimer pthread_kill",
    select: "poll POLLIN POLLOUT epoll",
    mmap: "MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE MAP_ANONYMOUS",
    socket: "MSG_DONTWAIT MSG_CMSG_CLOEXEC SCM_RIGHTS CMSG_SPACE",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)

load = ctypes.CDLL
def load_by_name(name, *args, **kwargs):
    if name is None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    return load(name, *args, **kwargs)
ctypes.CDLL = load_by_name

import numpy as np
import towerpack_dataflow as td

rows = np.arange(60).reshape(20, 3)

def same(datapoint):
    return datapoint
"""

LOADS = {
    "plain": "flow = td.BatchData(td.MapData(td.DataFromArrays([rows], shuffle=True), same), 4)",
    "shared list": "flow = td.RepeatedData(td.DataFromList([[row] for row in rows]), 1)",
    "threads": "flow = td.MultiThreadMapData(td.DataFromArrays([rows]), 2, same)",
    "thread runner": "flow = td.MultiThreadRunner(td.DataFromArrays([rows]), 2)",
    "workers": "flow = td.MultiProcessRunner(td.DataFromArrays([rows]), 2)",
    "worker map": "flow = td.MultiProcessMapData(td.DataFromArrays([rows]), 2, same)",
    "cache": "flow = td.CacheData(td.DataFromArrays([rows]))",
    "npz": "np.savez('rows.npz', rows=rows); flow = td.NumpyData('rows.npz')",
    "csv": "open('rows.csv', 'w').write('a,b\\n' + '1,2\\n' * 20); flow = td.CSVSerializer.load('rows.csv')",
    "files": (
        "[open(f'{i}.txt', 'w').write('x') for i in range(20)];"
        "flow = td.MapData(td.DataFromList([[f'{i}.txt'] for i in range(20)]), lambda d: [open(d[0]).read()])"
    ),
}


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code], cwd=folder, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_data_are_loaded_without_workers_and_with_threads(tmp_path):
    count = "\nflow.reset_state(); first = list(flow); print(len(first), len(list(flow)))\n"
    printed = run("".join(code + count for code in LOADS.values()), tmp_path)
    expected = dict.fromkeys(LOADS, "20 20") | {"plain": "5 5"}
    assert dict(zip(LOADS, printed.splitlines(), strict=True)) == expected


@pytest.mark.slow
def test_a_position_is_restored(tmp_path):
    code = """
flow = td.MultiThreadMapData(td.DataFromArrays([rows], shuffle=True), 2, same)
flow.reset_state()
data = iter(flow)
first = [next(data) for _ in range(7)]
state = flow.state_dict()
rest = [int(d[0][0]) for d in data]
again = td.MultiThreadMapData(td.DataFromArrays([rows], shuffle=True), 2, same)
again.load_state_dict(state)
again.reset_state()
assert [int(d[0][0]) for d in again] == rest and len(rest) == 13
"""
    run(code, tmp_path)


@pytest.mark.slow
def test_worker_processes_are_refused_with_the_remedy(tmp_path):
    code = """
try:
    td.MultiProcessRunner(td.DataFromArrays([rows]), 2, start_method="spawn")
except td.ArgumentError as error:
    print(error)
"""
    printed = run(code, tmp_path)
    assert "no worker processes" in printed and 'Use start_method="thread"' in printed
