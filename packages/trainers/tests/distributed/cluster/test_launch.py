"""The launcher, with real but small processes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from towerpack_trainers.__main__ import main
from towerpack_trainers.distributed import LaunchError, launch
from towerpack_trainers.distributed.cluster import exit_code, free_addresses, processes_of_try

SETUP = """
import json, os, signal, sys, threading
cluster = json.loads(os.environ["TF_CONFIG"])
rank, size = cluster["task"]["index"], len(cluster["cluster"]["worker"])
def count(name):
    with open(name, "a") as file:
        file.write(f"{rank} of {size}\\n")
    return len(open(name).readlines())
def wait_for_ever():
    threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def as_in_a_shell():
    """Installs Python's own handler, since background jobs of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Writes a script of one training process."""
    monkeypatch.chdir(tmp_path)

    def write(body):
        path = tmp_path / "script.py"
        path.write_text(SETUP + textwrap.dedent(body))
        return [sys.executable, str(path)]

    return write


def test_each_process_finds_the_cluster(script, capfd):
    command = script("""
        print("hello from", cluster["task"]["type"], rank, "of", size)
        assert len(set(cluster["cluster"]["worker"])) == 3
    """)
    assert launch(command, 3) == 0
    out, _ = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"[{rank}] hello from worker {rank} of 3" for rank in range(3)]


def test_standard_error_stays_apart_and_arguments_arrive(script, capfd):
    command = script("print(sys.argv[1:]); print('no newline', end='', file=sys.stderr)")
    assert launch([*command, "--rate", "3"], 1) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("[0] ['--rate', '3']\n", "[0] no newline\n")


def test_the_first_failure_is_the_exit_code_and_ends_all(script, capfd):
    command = script("""
        if rank == 1:
            sys.exit(7)
        wait_for_ever()
    """)
    began = time.monotonic()
    assert launch(command, 3, grace=0.5) == 7
    assert time.monotonic() - began < 20
    err = capfd.readouterr().err
    assert "[launch] rank 1 ended with exit code 7; stopping the others" in err
    assert "rank 0 did not exit within 0.5 s and is killed" in err


def test_a_killed_process_is_named_by_its_signal(script, capfd):
    command = script("os.kill(os.getpid(), signal.SIGKILL)")
    assert launch(command, 1) == 128 + signal.SIGKILL
    assert "rank 0 was killed by SIGKILL" in capfd.readouterr().err


def test_a_stopped_process_is_killed(script):
    command = script("""
        if rank == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        sys.exit(3)
    """)
    assert launch(command, 2, grace=0.3) == 3


def test_a_restart_starts_all_processes(script, tmp_path, capfd):
    command = script("""
        if count(f"starts{rank}") < 3 and rank == 0:
            sys.exit(1)
    """)
    assert launch(command, 2, max_restarts=5, grace=5) == 0
    assert (tmp_path / "starts0").read_text() == "0 of 2\n" * 3
    assert "[launch] restart 2 of 5, with 2 processes" in capfd.readouterr().err


def test_restarts_with_fewer_processes(script, tmp_path):
    command = script("""
        if count(f"starts{rank}") < 4 and rank == 0:
            sys.exit(1)
    """)
    assert launch(command, 3, max_restarts=3, min_processes=2, grace=5) == 0
    assert (tmp_path / "starts0").read_text().split("\n")[:4] == ["0 of 3", "0 of 2", "0 of 2", "0 of 2"]


def test_restarts_are_limited(script, tmp_path):
    assert launch(script("count('starts'); sys.exit(9)"), 1, max_restarts=2) == 9
    assert len((tmp_path / "starts").read_text().splitlines()) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_forwarded_and_nothing_is_restarted(script, tmp_path, number):
    command = script(f"""
        def leave(number, frame):
            count("told")
            sys.exit(0)
        signal.signal({int(number)}, leave)
        count("ready")
        wait_for_ever()
    """)

    def tell():
        while not (tmp_path / "ready").exists() or len((tmp_path / "ready").read_text().splitlines()) < 2:
            threading.Event().wait(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=tell)
    thread.start()
    assert launch(command, 2, max_restarts=3) == 128 + number
    thread.join()
    assert len((tmp_path / "told").read_text().splitlines()) == 2
    assert len((tmp_path / "ready").read_text().splitlines()) == 2


def test_ignored_signals_are_not_forwarded(script, tmp_path, capfd):
    command = script("""
        def leave(number, frame):
            count(f"told {number}")
            sys.exit(0)
        for number in (signal.SIGINT, signal.SIGHUP):
            assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, leave)
        count("ready")
        wait_for_ever()
    """)

    def tell():
        while not (tmp_path / "ready").exists():
            threading.Event().wait(0.02)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)

    ignored = (signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        assert launch(command, 1, grace=60) == 128 + signal.SIGTERM
    finally:
        thread.join()
        for number, handler in zip(ignored, before):
            signal.signal(number, handler)
    assert (tmp_path / "told 15").exists()
    err = capfd.readouterr().err
    assert f"Ctrl-C has no effect. Use `kill {os.getpid()}` (SIGTERM) to end it" in err


def test_earlier_handlers_are_restored(script):
    before = signal.getsignal(signal.SIGTERM)
    launch(script(""), 1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_each_start_has_a_different_token(script, tmp_path):
    command = script("""
        with open(f"token{rank}", "a") as file:
            file.write(os.environ["TOWERPACK_TOKEN"] + "\\n")
        sys.exit(len(open(f"token{rank}").readlines()) == 1)
    """)
    assert launch(command, 2, max_restarts=1) == 0
    tokens = [(tmp_path / f"token{rank}").read_text().split() for rank in range(2)]
    assert tokens[0] == tokens[1]
    assert len(set(tokens[0])) == 2
    assert all(len(token) == 32 for token in tokens[0])


def test_the_command_inherits_the_signals_of_a_shell(script, capfd):
    assert launch(script("sys.exit(0)"), 1) == 0
    assert launch(["/bin/sh", "-c", "grep SigIgn /proc/self/status"], 1) == 0
    ignored = int(capfd.readouterr().out.split()[-1], 16)
    assert not ignored & 1 << (signal.SIGPIPE - 1)


@pytest.mark.parametrize("end", ["wait", "exit 3"])
def test_children_of_a_shell_end_with_it(tmp_path, monkeypatch, end):
    """Rank 0 is a shell that waits; rank 1 is a shell that has already failed."""
    monkeypatch.chdir(tmp_path)
    rank = "$(echo $TF_CONFIG | grep -o '\"index\": [0-9]*' | grep -o '[0-9]*')"
    ending = f"if [ {rank} = 0 ]; then {end}; else exit 3; fi"
    command = ["bash", "-c", f"sleep 1000 & echo $! > pid{rank}; {ending}"]
    assert launch(command, 2, grace=2) == 3
    _wait_for_the_end_of([int((tmp_path / f"pid{number}").read_text()) for number in range(2)])


def test_a_program_that_the_kernel_cannot_start(tmp_path, capfd):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and nothing more")
    program.chmod(0o755)
    assert launch([str(program)], 1) == 1
    assert f"[0] {program} cannot be started: " in capfd.readouterr().err


@pytest.mark.slow
def test_processes_die_with_a_killed_launcher(script, tmp_path):
    command = script("count('ready'); print(os.getpid(), flush=True); wait_for_ever()")
    launcher = [sys.executable, "-m", "towerpack_trainers", "launch", "--processes", "2", command[1]]
    with subprocess.Popen(launcher, stdout=subprocess.PIPE, text=True) as process:
        pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
        process.kill()
        process.wait()
        _wait_for_the_end_of(pids)


def _wait_for_the_end_of(pids):
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") and not _is_zombie(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process has outlived its launcher"
        threading.Event().wait(0.05)


def _is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_command_line(script, capfd):
    command = script("print(size, sys.argv[1:])")
    assert main(["launch", "--processes", "2", command[1], "--own", "-x"]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == [f"[{k}] 2 ['--own', '-x']" for k in range(2)]
    assert main(["launch", "--processes", "0", command[1]]) == 2
    assert "processes=0: expected a whole number of at least 1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"processes": 0}, "processes=0"),
        ({"processes": 2, "max_restarts": -1}, "max_restarts=-1"),
        ({"processes": 2, "min_processes": 3}, "min_processes=3 is more than processes=2"),
        ({"processes": True}, "processes=True"),
    ],
)
def test_numbers_are_checked(arguments, message):
    with pytest.raises(LaunchError, match=message):
        launch([sys.executable, "-c", ""], **arguments)


def test_a_missing_program():
    with pytest.raises(LaunchError, match="'/no/such/program 5' cannot be started: there is no program"):
        launch(["/no/such/program", "5"], 1)
    with pytest.raises(LaunchError, match="there is no program ''"):
        launch([], 1)


def test_exit_codes():
    assert [exit_code(code) for code in (0, 5, -9, -15)] == [0, 5, 137, 143]


def test_numbers_of_processes():
    assert [processes_of_try(k, 4, None) for k in range(3)] == [4, 4, 4]
    assert [processes_of_try(k, 4, 3) for k in range(3)] == [4, 3, 3]


def test_addresses_are_distinct():
    assert len(set(free_addresses(20))) == 20
