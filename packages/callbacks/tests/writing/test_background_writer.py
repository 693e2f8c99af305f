"""The thread that writes: in order, nothing lost, errors where the loop is."""

import errno
import gc
import subprocess
import sys
import threading

import pytest

from towerpack_callbacks.writing import BackgroundJob, BackgroundWriter, Batches

MODULE = BackgroundWriter.__module__
CAPACITY = 10_000


def thread_names():
    return [thread.name for thread in threading.enumerate()]


def fail():
    raise PermissionError(errno.EACCES, "not yours")


def test_calls_are_made_in_order_and_flush_waits_for_them():
    done, writer = [], BackgroundWriter("test")
    gate = threading.Event()
    writer.submit(gate.wait)
    for number in range(100):
        writer.submit(lambda number=number: done.append(number))
    assert done == []
    gate.set()
    writer.flush()
    assert done == list(range(100))
    writer.close()


def test_an_exception_comes_out_with_its_type_and_later_calls_are_made():
    done, writer = [], BackgroundWriter("test")
    writer.submit(fail)
    try:
        writer.submit(lambda: done.append("later"))  # the thread may be as fast as we are, or not
        with pytest.raises(PermissionError, match="not yours"):
            writer.flush()
    except PermissionError:
        writer.flush()
    assert done == ["later"]
    writer.flush()  # it was reported once
    writer.close()


def test_further_errors_are_noted_at_the_first():
    writer = BackgroundWriter("test")
    gate = threading.Event()
    writer.submit(gate.wait)
    for number in range(8):
        writer.submit(lambda number=number: [][number])
    gate.set()
    with pytest.raises(IndexError) as error:
        writer.close()
    first, *_, last = error.value.__notes__
    assert first.startswith("A later call of the thread 'test' also failed: IndexError(")
    assert (len(error.value.__notes__), last) == (6, "So did 2 more.")


def test_the_call_that_reports_an_error_also_runs():
    done, writer = [], BackgroundWriter("test")
    gate, failed = threading.Event(), threading.Event()
    for call in (gate.wait, fail, failed.set):
        writer.submit(call)
    gate.set()
    failed.wait()
    with pytest.raises(PermissionError):
        writer.submit(lambda: done.append("last"))
    writer.close()
    assert done == ["last"]


def test_close_ends_the_thread_and_a_later_call_starts_another():
    before = set(threading.enumerate())
    done, writer = [], BackgroundWriter("test")
    for _ in range(2):
        writer.submit(lambda: done.append(1))
        assert len(set(threading.enumerate()) - before) == 1
        writer.close()
        assert not set(threading.enumerate()) - before
    assert done == [1, 1]


def test_a_writer_that_is_forgotten_finishes_its_work():
    done, writer = [], BackgroundWriter("forgotten")
    writer.submit(lambda: done.append(1))
    assert [name for name in thread_names() if name.startswith("forgotten")]
    del writer
    gc.collect()
    assert done == [1]
    assert not [name for name in thread_names() if name.startswith("forgotten")]


def test_items_during_a_write_form_the_next_batch():
    batches, writer = [], BackgroundWriter("test")
    busy, gate = threading.Event(), threading.Event()

    def write(batch):
        batches.append(batch)
        busy.set()
        gate.wait()

    items = Batches(writer, write)
    items.put(0)
    busy.wait()
    for number in range(1, 100):
        items.put(number)
    gate.set()
    writer.close()
    assert batches == [[0], list(range(1, 100))]


def test_too_many_items_wait_for_room_and_keep_their_order():
    written, writer = [], BackgroundWriter("test")
    items = Batches(writer, written.extend)
    longest = 0
    for number in range(3 * CAPACITY):
        items.put(number)
        longest = max(longest, len(items._items))
    writer.close()
    assert written == list(range(3 * CAPACITY))
    assert longest <= CAPACITY + 1


@pytest.mark.slow
def test_an_exit_by_an_exception_waits_for_submitted_calls(tmp_path):
    program = f"""
import threading
from {MODULE} import BackgroundWriter
writer = BackgroundWriter("test")
writer.submit(lambda: threading.Event().wait(0.2))
writer.submit(lambda: open({str(tmp_path / "written")!r}, "w").write("last value"))
raise SystemExit("left by an exception")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "left by an exception" in result.stderr
    assert (tmp_path / "written").read_text() == "last value"


@pytest.mark.slow
def test_a_thread_that_outlives_the_main_one_still_writes_in_order(tmp_path):
    program = f"""
import threading
from {MODULE} import BackgroundJob, BackgroundWriter
done = []

def train():
    threading.main_thread().join()
    writer.submit(lambda: done.append(1))
    writer.submit(lambda: 1 / 0)
    try:
        writer.flush()
    except ZeroDivisionError:
        done.append(2)
    writer.close()
    job.start(lambda: done.append(3))
    job.wait()
    open({str(tmp_path / "written")!r}, "w").write(repr(done))

writer, job = BackgroundWriter("test"), BackgroundJob("test", print)
writer.submit(lambda: done.append(0))
threading.Thread(target=train).start()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert (tmp_path / "written").read_text() == "[0, 1, 2, 3]"


# ---- one job at a time


def test_one_at_a_time():
    job = BackgroundJob("test", on_failure=lambda failure: None)
    may_end, running = threading.Event(), []

    def first():
        may_end.wait(60)
        running.append("first")

    job.start(first)
    # The second waits, though it is asked for at once.
    threading.Timer(0.05, may_end.set).start()
    job.start(lambda: running.append("second"))
    job.wait()
    assert running == ["first", "second"]


def test_a_failure_is_reported_at_once_and_raised_once():
    told = []
    job = BackgroundJob("test", on_failure=told.append)
    error = OSError("full")

    def fail():
        raise error

    job.start(fail)
    with pytest.raises(OSError, match="full"):
        job.wait()
    assert told == [error]
    job.wait()
    job.start(fail)
    with pytest.raises(OSError, match="full"):
        job.start(lambda: pytest.fail("after a failure nothing is started"))
