"""A failure in a worker is reported in the parent with its type and place, and soon."""

import logging
import os
import re
import signal
import sys
import threading
from itertools import islice
from pathlib import Path
from time import perf_counter

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    NotAddressableError,
    SendError,
    UnknownLengthError,
    WorkerDiedError,
    WorkerError,
    get_worker_info,
)
from towerpack_dataflow.runtime.transport import WorkerTraceback
from towerpack_dataflow.testing import check_dataflow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = pytest.mark.slow


class OddError(Exception):
    """Its constructor takes other arguments than it keeps."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class LockedError(Exception):
    """Holds an unsendable object."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def numbers(count):
    return DataFromList([[number] for number in range(count)], shuffle=False)


def fail_at(*places, error=KeyError):
    def func(dp):
        if dp[0] in places:
            raise error(f"no {dp[0]}")
        return dp

    return func


def read_until_error(flow):
    got = []
    with pytest.raises(Exception) as caught:
        for datapoint in flow:
            got.append(datapoint)
    return got, caught.value


def forked(ds, workers, **options):
    """Starts quickly; these tests do not depend on the transport of the flow."""
    return MultiProcessRunner(ds, workers, start_method="fork", **options)


MAKERS = {
    "runner": lambda ds, func, **options: MultiProcessRunner(
        MapData(ds, func), 2, start_method="spawn", **options
    ),
    "forked runner": lambda ds, func, **options: forked(MapData(ds, func), 2, **options),
    "forked map": lambda ds, func, **options: MultiProcessMapData(
        ds, 2, func, start_method="fork", **options
    ),
}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@both
def test_an_error_keeps_its_type_and_names_its_place(make):
    flow = make(numbers(30), fail_at(7))
    got, error = read_until_error(flow)
    assert got == [[number] for number in range(7)]
    assert type(error) is KeyError and error.args == ("no 7",)
    assert isinstance(error.__cause__, WorkerTraceback)
    assert "in func" in str(error.__cause__) and Path(__file__).name in str(error.__cause__)
    (note,) = error.__notes__
    assert "MapData(fail_at.<locals>.func)" in note and "datapoint 7 of epoch 0" in note


@both
def test_after_an_error_the_next_pass_works(make):
    flow = make(numbers(5), fail_at(2))
    for _ in range(3):
        assert read_until_error(flow)[0] == [[0], [1]]


def test_an_error_in_a_stream_comes_after_the_earlier_datapoints():
    def broken():
        yield from ([number] for number in range(20))
        raise OSError(5, "the disk is gone")

    for flow in (
        forked(DataFromGenerator(broken), 2),
        MultiProcessMapData(DataFromGenerator(broken), 2, list, start_method="fork"),
    ):
        got, error = read_until_error(flow)
        assert len(got) == 20
        assert type(error) is OSError and error.errno == 5


@pytest.mark.parametrize("method", ["fork", "thread"])
def test_an_error_with_a_custom_constructor_keeps_its_type(method):
    def odd(dp):
        raise OddError(1, 2)

    flow = MultiProcessRunner(MapData(numbers(1), odd), 1, start_method=method)
    _, error = read_until_error(flow)
    assert (type(error), error.args, error.two) == (OddError, (1,), 2)
    assert "in odd" in str(error.__cause__)


def test_an_error_that_cannot_travel_is_named():
    def locked(dp):
        raise LockedError("mine")

    _, error = read_until_error(forked(MapData(numbers(1), locked), 1))
    assert isinstance(error, WorkerError) and "LockedError: mine" in str(error)
    assert "in locked" in str(error.__cause__)
    _, error = read_until_error(MultiThreadMapData(numbers(1), 1, locked))
    assert type(error) is LockedError and error.lock is not None


def test_a_datapoint_that_cannot_travel_is_an_error_there():
    flow = forked(MapData(numbers(5), lambda dp: [threading.Lock()] if dp[0] == 3 else dp), 1)
    got, error = read_until_error(flow)
    assert got == [[0], [1], [2]]
    assert isinstance(error, TypeError) and "lock" in str(error)


@both
def test_skipping_drops_and_counts_failing_datapoints(make, caplog):
    flow = make(numbers(30), fail_at(3, 4, 29), on_error="skip")
    assert list(flow) == [[number] for number in range(30) if number not in (3, 4, 29)]
    (message,) = caplog.messages
    assert "skipped 3 datapoints" in message and "datapoint 3: KeyError: 'no 3'" in message
    with pytest.raises(UnknownLengthError, match="FixedSizeData"):
        len(flow)


@pytest.mark.parametrize("make", list(MAKERS.values())[1:], ids=list(MAKERS)[1:])
def test_skipping_keeps_states_exact(make):
    flow = make(numbers(30), fail_at(3, 4, 17), on_error="skip")
    check_dataflow(flow, positions=3)


@both
def test_retrying(make, caplog, tmp_path):
    def flaky(dp):
        path = tmp_path / str(dp[0])
        with path.open("a") as file:  # both workers may be at it, one of them in the next epoch
            file.write("x")
        if dp[0] % 2 and path.stat().st_size < 3:
            raise OSError("busy")
        return dp

    assert list(islice(make(numbers(9), flaky, on_error="retry"), 9)) == [[number] for number in range(9)]
    flow = make(numbers(9), fail_at(4), on_error="retry")
    got, error = read_until_error(flow)
    assert got == [[number] for number in range(4)] and type(error) is KeyError


def test_retries_are_counted(caplog):
    failed = set()

    def flaky(dp):
        if dp[0] % 3 == 0 and dp[0] not in failed:
            failed.add(dp[0])
            raise OSError("busy")
        return dp

    flow = MultiThreadMapData(numbers(9), 1, flaky, on_error="retry")
    assert list(flow) == [[number] for number in range(9)]
    (message,) = (message for message in caplog.messages if "tried" in message)
    assert message.startswith("MultiThreadMapData(") and "flaky) retried 3 times in this pass" in message


def test_policies_that_cannot_work_are_refused():
    with pytest.raises(ArgumentError, match="MultiProcessMapData"):
        MultiProcessRunner(DataFromGenerator(lambda: iter([])), 1, on_error="skip")
    with pytest.raises(ArgumentError, match="ordered"):
        MultiProcessRunner(numbers(1), 1, on_error="skip", ordered=False)
    with pytest.raises(ArgumentError, match="'raise' or 'skip' or 'retry'"):
        MultiProcessRunner(numbers(1), 1, on_error="ignore")
    with pytest.raises(ArgumentError, match="'spawn' or 'fork' or 'thread'"):
        MultiProcessRunner(numbers(1), 1, start_method="forkserver")


def victim(dp):
    if dp[0] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return dp


@both
def test_a_killed_worker_is_an_error_that_names_it(make):
    got, error = read_until_error(make(numbers(9), victim))
    assert isinstance(error, WorkerDiedError)
    assert re.search(r"worker [01] \(process \d+\) was killed by SIGKILL.* of epoch [01]", str(error)), error
    assert got == [[number] for number in range(len(got))]


def test_a_killed_worker_of_a_worker_is_an_error_that_names_it():
    flow = forked(forked(MapData(numbers(9), victim), 1), 1)
    got, error = read_until_error(flow)
    assert isinstance(error, WorkerDiedError) and "was killed by SIGKILL" in str(error)
    assert "in the worker" in str(error.__cause__)
    assert got == [[number] for number in range(len(got))]


def test_a_worker_killed_from_outside_is_noticed_at_once():
    def wait(dp):
        if dp[0] == 1:
            threading.Event().wait()
        return [os.getpid()]

    iterator = iter(forked(MapData(numbers(9), wait), 1))
    (pid,) = next(iterator)
    threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
    begin = perf_counter()
    with pytest.raises(
        WorkerDiedError, match=rf"process {pid}\) was killed by SIGKILL.*datapoint 1 of epoch 0"
    ):
        next(iterator)
    assert perf_counter() - begin < 10  # it would wait for ever


def test_datapoints_made_before_the_end_of_a_worker_come_before_its_error():
    taken, sent = os.pipe(), os.pipe()

    def end(dp):
        if dp[0] == 1:
            os.read(taken[0], 1)
        elif dp[0] == 2:  # by the worker of datapoint 0
            os.read(sent[0], 1)
            os.kill(os.getpid(), signal.SIGKILL)
        elif dp[0] == 3:  # by that of datapoint 1
            os.write(sent[1], b"1")
            threading.Event().wait()
        return [dp[0], os.getpid()]

    # With a time limit, each datapoint is a separate message.
    iterator = iter(forked(MapData(numbers(9), end), 2, timeout=60))
    _, pid = next(iterator)
    os.write(taken[1], b"0")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert next(iterator)[0] == 1
    with pytest.raises(WorkerDiedError, match="was killed by SIGKILL"):
        next(iterator)
    for descriptor in (*taken, *sent):
        os.close(descriptor)


def test_a_worker_that_hangs_is_named(caplog):
    def hang(dp):
        if dp[0] == 2:
            threading.Event().wait(0.5)
        return dp

    assert len(list(forked(MapData(numbers(4), hang), 1, stall_warning=0.1))) == 4
    assert any("waits for datapoint 2 of epoch 0" in message for message in caplog.messages)
    assert any("worker 0 (process" in message and "has been at" in message for message in caplog.messages)


def test_a_worker_that_exits_by_itself():
    flow = forked(MapData(numbers(3), lambda dp: sys.exit(3)), 1)
    assert "exited with code 3" in str(read_until_error(flow)[1])
    flow = forked(MapData(numbers(3), lambda dp: os._exit(4)), 1)
    assert "exited with code 4" in str(read_until_error(flow)[1])


def test_a_failure_at_the_start_is_the_users_error():
    def init(number):
        raise FileNotFoundError("no data here")

    _, error = read_until_error(forked(numbers(3), 2, worker_init_fn=init))
    assert type(error) is FileNotFoundError and "in init" in str(error.__cause__)


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (
            lambda lock: MapData(numbers(3), lambda dp: lock and dp),
            r"^MapData\(.*\)\._func > variable 'lock' of .*: <unlocked",
        ),
        (
            lambda lock: BatchData(MapData(numbers(3), lambda dp: [lock]), 2),
            r"^BatchData\(2\) > MapData\(.*\)\._func > variable 'lock' of .*cannot be sent",
        ),
        (lambda lock: DataFromList([[1], [lock]]), r"^DataFromList\._lst\[1\]\[0\]: <unlocked"),
    ],
)
def test_an_unsendable_part_is_named_by_its_place(make, pattern):
    _, error = read_until_error(MultiProcessRunner(make(threading.Lock()), 1, start_method="spawn"))
    assert isinstance(error, SendError)
    assert "worker_init_fn" in str(error) and 'start_method="fork"' in str(error)
    assert re.search(pattern, str(error)), str(error)


def test_a_drop_out_of_order_is_an_error():
    def late(dp):
        return None if dp[0] == 0 else dp

    flow = forked(BatchData(MapData(numbers(400), late), 2), 2, ordered=False)
    try:
        got = [row for batch in flow for row in batch[0].tolist()]
    except NotAddressableError as error:
        assert "drops=True" in str(error)
    else:
        assert sorted(got) == list(range(1, 399))


def test_warnings_of_workers_are_logged_by_the_parent(caplog):
    flow = forked(MapData(numbers(40), lambda dp: dp if dp[0] % 2 else None), 2)
    assert [number for (number,) in flow] == list(range(1, 40, 2))
    assert sum("returned None" in message for message in caplog.messages) == 1
    with pytest.raises(UnknownLengthError):
        len(flow)


def test_workers_know_who_they_are():
    flow = MultiProcessRunner(  # a new interpreter: its libraries read these variables
        MapData(numbers(40), lambda dp: [tuple(get_worker_info()), os.environ["OMP_NUM_THREADS"]]),
        2,
        start_method="spawn",
    )
    assert {info for info, _ in flow} <= {(0, 2), (1, 2)}
    assert get_worker_info() is None


STREAMING = "glibc.cpu.x86_non_temporal_threshold"


@pytest.mark.parametrize(
    ("own", "workers"),
    [
        ("", f"{STREAMING}=4194304"),
        ("glibc.malloc.arena_max=2", f"glibc.malloc.arena_max=2:{STREAMING}=4194304"),
        (f"{STREAMING}=32768", f"{STREAMING}=32768"),
    ],
)
def test_workers_stream_large_blocks_by_default(monkeypatch, own, workers):
    monkeypatch.setenv("GLIBC_TUNABLES", own)

    def see(dp):
        # The C library may have divided the variable at its colons by now.
        at_start = Path("/proc/self/environ").read_text().replace("\0", ":")
        return [f"GLIBC_TUNABLES={workers}:" in at_start, os.environ["GLIBC_TUNABLES"]]

    flow = MultiProcessRunner(MapData(numbers(1), see), 1, start_method="spawn")
    assert list(flow) == [[True, own]]  # what a worker starts has the user's own setting


def test_logging_in_workers_does_not_reach_the_library_twice(caplog):
    caplog.set_level(logging.INFO, "towerpack_dataflow")
    flow = forked(FixedSizeData(DataFromList(list(range(9))), 4), 1)
    assert len(list(flow)) == 4
    assert sum("drew seed" in message for message in caplog.messages) == 1


def test_large_views_that_an_error_passes_by_do_not_leak_slots():
    def make(dp):
        if dp[0] % 3 == 2:
            raise ValueError(dp[0])
        return [np.full(10**6, dp[0], np.uint8)]

    flow = forked(BatchData(MapData(numbers(60), make), 1), 1, on_error="skip")
    for _ in range(3):
        assert [batch[0][0, 0] for batch in flow] == [n for n in range(60) if n % 3 != 2]
    (worker,) = flow._worker_pool._workers
    assert len(worker.channel._borrowed._slots) < 10
