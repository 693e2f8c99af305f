"""Ctrl-C and SIGTERM in each phase of a training."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest

from towerpack_trainers.session import StopSignals

HANDLERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def as_in_a_shell():
    """Installs Python's own handlers, regardless of the shell that started the tests, and restores them."""
    before = {number: signal.getsignal(number) for number in HANDLERS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    old = signal.set_wakeup_fd(-1)
    assert old == -1
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    """Sends a signal to this process, as a shell would; Python's handler has run when it returns."""
    os.kill(os.getpid(), number)


ENDS = [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)]


@pytest.mark.parametrize(("number", "kind", "code"), ENDS)
def test_during_training_it_is_recorded_and_raised_at_the_end(number, kind, code):
    with pytest.raises(kind) as caught, StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
        assert signals.requested is None
        send(number)
        assert signals.requested == number
    assert getattr(caught.value, "code", None) == code


@pytest.mark.parametrize(("number", "kind", "code"), ENDS)
def test_before_training_it_is_raised_at_once(number, kind, code):
    with pytest.raises(kind), StopSignals(cancel=pytest.fail):
        send(number)
        pytest.fail("went on")


@pytest.fixture
def forwarded():
    """A function that waits until a signal has gone through the thread that receives signals."""
    reader, writer = socket.socketpair()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    with reader, writer:
        writer.setblocking(False)
        reader.settimeout(60)
        signal.set_wakeup_fd(writer.fileno())

        def wait_for(number):
            assert reader.recv(1) == bytes([number])

        yield wait_for
        assert signal.set_wakeup_fd(-1) == writer.fileno()
    signal.signal(signal.SIGUSR1, before)


def test_saving_is_not_interrupted(forwarded):
    saved, cancels = [], []
    with (
        pytest.raises(SystemExit),
        StopSignals(cancel=lambda: cancels.append(1), grace_seconds=0.01) as signals,
    ):
        signals.begin()
        with signals.saving():
            send(signal.SIGTERM)
            forwarded(signal.SIGTERM)
            assert not threading.Event().wait(0.2)  # many times the grace
            send(signal.SIGUSR1)
            forwarded(signal.SIGUSR1)  # so the thread has passed the end of the grace time
            saved.append(True)
        signals.leave()
        assert not threading.Event().wait(0.2)
        saved.append(True)
    assert saved == [True, True]
    assert cancels == []


def test_waits_in_python_are_interrupted_after_a_while(caplog):
    cancelled = threading.Event()
    with pytest.raises(KeyboardInterrupt), StopSignals(cancelled.set, grace_seconds=0.05) as signals:
        signals.begin()
        send(signal.SIGINT)
        threading.Event().wait()
    assert cancelled.is_set()
    [told] = caplog.messages
    assert told.startswith(
        "The work that was running when SIGINT arrived has not ended within 0.05 s. It is interrupted"
    )


def test_errors_caused_by_cancelling_are_not_raised():
    cancelled = threading.Event()
    with pytest.raises(SystemExit) as caught, StopSignals(cancelled.set, grace_seconds=0.05) as signals:
        signals.begin()
        signals._raised = True  # as if the main thread were inside a step until then
        send(signal.SIGTERM)
        assert cancelled.wait(60)
        raise RuntimeError("the step was cancelled")
    assert caught.value.code == 143
    assert caught.value.__suppress_context__


def test_an_error_on_the_way_out_takes_precedence():
    with pytest.raises(OSError, match="disk full"), StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
        send(signal.SIGTERM)
        raise OSError("disk full")


@pytest.fixture
def fork():
    """A function that forks a process that sleeps, and returns its id; it is killed at the end."""
    forked = []

    def begin():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
            child = os.fork()
        if not child:
            try:
                time.sleep(60)
            finally:
                os._exit(1)
        forked.append(child)
        return child

    yield begin
    for child in forked:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@pytest.mark.parametrize("number", HANDLERS)
def test_signals_of_a_forked_process_are_its_own(fork, number):
    with StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
        child = fork()
        time.sleep(0.2)  # it begins to sleep; a signal before that ends it, too
        os.kill(child, number)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == (1 if number == signal.SIGINT else -signal.SIGTERM)
        time.sleep(0.2)
        assert signals.requested is None


def test_a_forked_process_does_not_delay_the_end(fork):
    with StopSignals(cancel=pytest.fail):
        fork()


def test_signals_to_process_and_group_count_as_one():
    with pytest.raises(SystemExit), StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
        for _ in range(5):
            send(signal.SIGTERM)


def test_without_signals_nothing_happens():
    with StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
    with pytest.raises(ValueError, match="mine"), StopSignals(cancel=pytest.fail):
        raise ValueError("mine")


def test_other_threads_install_nothing():
    def work():
        with StopSignals(cancel=pytest.fail) as signals:
            found.append((signals.requested, signal.getsignal(signal.SIGTERM)))

    found = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(None, signal.SIG_DFL)]


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: heard.append(number)])
def test_ignored_and_handled_signals_are_not_changed(own):
    signal.signal(signal.SIGTERM, own)
    try:
        with StopSignals(cancel=pytest.fail) as signals:
            signals.begin()
            send(signal.SIGTERM)
            assert signal.getsignal(signal.SIGTERM) is own
            assert signals.requested is None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_process_that_ignores_ctrl_c_logs_it_and_ends_by_sigterm(caplog):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended, StopSignals(cancel=pytest.fail) as signals:
            signals.begin()
            send(signal.SIGINT)
            assert signals.requested is None
            send(signal.SIGTERM)
            assert signals.requested is signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 143
    (record,) = caplog.records
    assert record.getMessage().startswith("This process was started to ignore SIGINT")
    assert f"`kill {os.getpid()}` (SIGTERM) to end it" in record.getMessage()


def test_a_process_that_handles_ctrl_c_logs_nothing(caplog):
    with StopSignals(cancel=pytest.fail):
        assert not caplog.records


heard = []


def test_earlier_receivers_of_signals_receive_all_of_them(forwarded):
    with pytest.raises(KeyboardInterrupt), StopSignals(cancel=pytest.fail) as signals:
        signals.begin()
        for number in (signal.SIGUSR1, signal.SIGINT):
            send(number)
            forwarded(number)


TWICE = """
import signal, threading
from towerpack_trainers.session import StopSignals
signal.signal(signal.SIGINT, signal.default_int_handler)
with StopSignals(cancel=lambda: None, debounce_seconds=0.05) as signals:
    signals.begin()
    print("ready", flush=True)
    while signals.requested is None:
        threading.Event().wait(0.01)
    print("noted", flush=True)
    try:
        while True:
            threading.Event().wait()
    finally:
        print("cleaned up", flush=True)
"""


@pytest.mark.timeout(300)  # it imports TensorFlow
@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [(2, 2), *(pytest.param(numbers, marks=pytest.mark.long) for numbers in ((15, 15), (15, 2)))],
    ids=str,
)
def test_a_second_one_ends_the_process_at_once(numbers):
    process = subprocess.Popen([sys.executable, "-c", TWICE], stdout=subprocess.PIPE, text=True)
    with process, process.stdout:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(numbers[0])
        assert process.stdout.readline() == "noted\n"
        threading.Event().wait(0.15)
        process.send_signal(numbers[1])
        assert process.wait(timeout=30) == 128 + numbers[1]
        assert process.stdout.read() == ""


def test_in_an_interactive_session_the_second_one_interrupts(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    cancelled = threading.Event()
    with pytest.raises(KeyboardInterrupt), StopSignals(cancelled.set, debounce_seconds=0) as signals:
        signals.begin()
        send(signal.SIGINT)
        send(signal.SIGINT)
        threading.Event().wait()
    assert cancelled.is_set()


def test_a_wait_that_begins_at_the_wrong_moment_is_interrupted_too(monkeypatch):
    interrupts = []

    def too_early(thread, number):
        interrupts.append(number)
        if len(interrupts) == 3:
            kill(thread, number)

    kill = signal.pthread_kill
    monkeypatch.setattr(signal, "pthread_kill", too_early)
    cancels = []
    with (
        pytest.raises(KeyboardInterrupt),
        StopSignals(lambda: cancels.append(1), grace_seconds=0.05, retry_seconds=0.05) as signals,
    ):
        signals.begin()
        send(signal.SIGINT)
        threading.Event().wait()
    assert len(interrupts) == 3
    assert cancels == [1]
