"""The thread that writes: in order, nothing lost, errors where the loop is."""

import errno
import gc
import subprocess
import sys
import threading

import pytest

from towerpack_callbacks.monitors import _background_writer as _background
from towerpack_callbacks.monitors._background_writer import BackgroundWriter, Batches


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
    writer.flush()  # it was told once
    writer.close()


def test_the_call_that_brings_the_news_is_made_itself():
    done, writer = [], BackgroundWriter("test")
    failed = threading.Event()
    writer.submit(fail)
    writer._shared.calls.put(failed.set)
    failed.wait()
    with pytest.raises(PermissionError):
        writer.submit(lambda: done.append("last"))
    writer.close()
    assert done == ["last"]


def test_close_ends_the_thread_and_a_later_call_starts_another():
    before = threading.active_count()
    done, writer = [], BackgroundWriter("test")
    for _ in range(2):
        writer.submit(lambda: done.append(1))
        assert threading.active_count() == before + 1
        writer.close()
        assert threading.active_count() == before
    assert done == [1, 1]


def test_a_writer_that_is_forgotten_finishes_its_work():
    before = threading.active_count()
    done, writer = [], BackgroundWriter("test")
    writer.submit(lambda: done.append(1))
    del writer
    gc.collect()
    assert done == [1]
    assert threading.active_count() == before


def test_what_comes_while_a_batch_is_written_is_the_next_batch():
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
    for number in range(3 * _background._CAPACITY):
        items.put(number)
        longest = max(longest, len(items._items))
    writer.close()
    assert written == list(range(3 * _background._CAPACITY))
    assert longest <= _background._CAPACITY + 1


@pytest.mark.slow
def test_an_exit_by_an_exception_waits_for_what_was_submitted(tmp_path):
    program = f"""
import runpy, threading
Writer = runpy.run_path({_background.__file__!r})["BackgroundWriter"]
writer = Writer("test")
writer.submit(lambda: threading.Event().wait(0.2))
writer.submit(lambda: open({str(tmp_path / "written")!r}, "w").write("last value"))
raise SystemExit("left by an exception")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "left by an exception" in result.stderr
    assert (tmp_path / "written").read_text() == "last value"
