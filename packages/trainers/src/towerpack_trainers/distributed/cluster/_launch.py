"""Starts all processes of a training on this machine, and restarts them when one dies."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, BinaryIO, final

import attrs

from ..._errors import LaunchError
from ._cluster import TOKEN_VARIABLE, make_token

__all__ = ["exit_code", "free_addresses", "launch", "processes_of_try"]

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Asks the kernel to kill the process together with the launcher, then executes the command. It is a separate
# program because code that Popen runs between fork and exec may wait for ever for a lock held by another
# thread of the launcher. Workers of towerpack_dataflow have their own code for this: this wheel does not
# import it.
_DIE_WITH_LAUNCHER = """
import ctypes, os, signal, sys
launcher, *command = sys.argv[1:]
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(launcher):
    sys.exit(1)
for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored_by_python, signal.SIG_DFL)
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"{command[0]} cannot be started: {error}")
"""


def launch(
    command: Sequence[str],
    processes: int,
    max_restarts: int = 0,
    min_processes: int | None = None,
    grace: float = 15.0,
) -> int:
    """Runs a command in several processes that train together, until all have ended.

    Each process finds the cluster in `TF_CONFIG`, and a secret made for this start in `TOWERPACK_TOKEN`. Its
    output lines are printed with its rank as a prefix. When a process fails, the others have `grace` seconds
    to exit before they are killed; if restarts are left, all processes start again. The command itself
    continues from its checkpoint, with `TrainConfig(resume="auto")`.

    Call it in the main thread. It forwards signals, except those that it was started to ignore, to the
    command but not to the command's children; therefore end a shell script with `exec python ...`. When all
    commands have ended, it kills the remaining processes of their process groups. If the launcher is killed,
    the commands are killed too.

    Args:
        command: a program and its arguments.
        processes: the number of processes.
        max_restarts: the maximum number of restarts after failures.
        min_processes: each restart uses one process less, down to this number. None: always `processes`.
        grace: the time, in seconds, for processes to exit before they are killed.

    Returns:
        0 if all processes succeeded; otherwise the exit code of the first failure, or 128 plus its signal.

    Raises:
        LaunchError: a number is out of range, or the command cannot be started.
    """
    _check(processes, max_restarts, min_processes)
    program = next(iter(command), "")
    if not shutil.which(program):
        raise LaunchError(f"{' '.join(command)!r} cannot be started: there is no program {program!r}.")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        _say(
            "this process was started to ignore SIGINT, as shells do for background jobs: Ctrl-C has no "
            f"effect. Use `kill {os.getpid()}` (SIGTERM) to end it"
        )
    for restarts in range(max_restarts + 1):
        count = processes_of_try(restarts, processes, min_processes)
        code, again = _Try(command, count, grace).run()
        if not again or code == 0:
            return code
        if restarts < max_restarts:
            next_count = processes_of_try(restarts + 1, processes, min_processes)
            _say(f"restart {restarts + 1} of {max_restarts}, with {next_count} processes")
    return code


def processes_of_try(restarts: int, processes: int, min_processes: int | None) -> int:
    """Returns the number of processes after the given number of restarts.

    Example:
        >>> [processes_of_try(restarts, 3, min_processes=2) for restarts in range(3)]
        [3, 2, 2]
    """
    return processes if min_processes is None else max(processes - restarts, min_processes)


def free_addresses(count: int, host: str = "127.0.0.1") -> list[str]:
    """Returns free addresses on this machine, where no process listens at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind((host, 0))
        return [f"{host}:{sock.getsockname()[1]}" for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def exit_code(returned: int) -> int:
    """Returns the exit code that a shell reports for a process: its own, or 128 plus its signal."""
    return returned if returned >= 0 else 128 - returned


@final
@attrs.frozen(eq=False)
class _Child:
    rank: int
    process: subprocess.Popen[bytes]
    pumps: list[threading.Thread]


@final
class _Try:
    """One attempt: the start of all processes, and their end."""

    def __init__(self, command: Sequence[str], count: int, grace: float) -> None:
        self._command, self._count, self._grace = list(command), count, grace
        # Each event is a signal, or the rank and the return code of an ended process.
        self._events: queue.SimpleQueue[int | tuple[int, int]] = queue.SimpleQueue()
        self._writing = threading.Lock()
        self._children: list[_Child] = []

    def run(self) -> tuple[int, bool]:
        """Returns the exit code, and whether to try again after a failure."""
        # Ignored signals stay ignored: a shell starts background jobs without SIGINT, `nohup` without
        # SIGHUP, and the commands inherit that.
        taken = [number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._on_signal) for number in taken}
        try:
            self._start_all()
            return self._wait()
        finally:
            self._kill(range(len(self._children)))
            for child in self._children:
                child.process.wait()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._events.put(number)

    def _start_all(self) -> None:
        addresses, token = free_addresses(self._count), make_token()
        starter = [sys.executable, "-I", "-S", "-c", _DIE_WITH_LAUNCHER, str(os.getpid())]
        for rank in range(self._count):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
            settings = {"TF_CONFIG": json.dumps(task), TOKEN_VARIABLE: token, "PYTHONUNBUFFERED": "1"}
            try:
                process = subprocess.Popen(
                    [*starter, *self._command],
                    env={**os.environ, **settings},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # A separate process group, so that Ctrl-C in a terminal reaches the process once,
                    # through the launcher.
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"{' '.join(self._command)} cannot be started: {error}.") from error
            pumps = [
                self._thread(self._pump, rank, process.stdout, sys.stdout),
                self._thread(self._pump, rank, process.stderr, sys.stderr),
            ]
            self._children.append(_Child(rank, process, pumps))
            self._thread(self._report_end, rank, process)

    def _thread(self, target: Any, *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _report_end(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        # Not reaped: until all have ended, no other process may receive its number or that of its group.
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        self._events.put((rank, code))

    def _pump(self, rank: int, source: BinaryIO, sink: Any) -> None:
        with source:
            for line in source:
                text = line.decode(errors="replace").removesuffix("\n")
                with self._writing:
                    sink.write(f"[{rank}] {text}\n")
                    sink.flush()

    def _wait(self) -> tuple[int, bool]:
        running = set(range(self._count))
        failed: int | None = None
        told_to_end: int | None = None
        deadline: float | None = None
        while running:
            event = self._next_event(deadline)
            if event is None:
                for rank in sorted(running):
                    _say(f"rank {rank} did not exit within {self._grace:g} s and is killed")
                self._kill(running)
                deadline = None
            elif isinstance(event, int):
                self._forward(event, running)
                if event in _ENDING:
                    told_to_end, deadline = event, deadline or time.monotonic() + self._grace
            else:
                rank, code = event
                running.discard(rank)
                if code and failed is None:
                    failed, deadline = exit_code(code), deadline or time.monotonic() + self._grace
                    _say(f"rank {rank} {_ending(code)}" + ("; stopping the others" if running else ""))
        self._kill(range(self._count))
        for child in self._children:
            for pump in child.pumps:
                pump.join(5)  # a process that has left the group may hold the other end
        if told_to_end is not None:
            return failed or 128 + told_to_end, False
        return failed or 0, True

    def _next_event(self, deadline: float | None) -> int | tuple[int, int] | None:
        try:
            return self._events.get(timeout=None if deadline is None else max(deadline - time.monotonic(), 0))
        except queue.Empty:
            return None

    def _forward(self, number: int, running: set[int]) -> None:
        for rank in running:
            os.kill(self._children[rank].process.pid, number)

    def _kill(self, ranks: Iterable[int]) -> None:
        """Kills processes and all members of their groups, such as a shell's command."""
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._children[rank].process.pid, signal.SIGKILL)


def _ending(returned: int) -> str:
    if returned >= 0:
        return f"ended with exit code {returned}"
    try:
        return f"was killed by {signal.Signals(-returned).name}"
    except ValueError:
        return f"was killed by signal {-returned}"


def _say(text: str) -> None:
    # In one write: the processes' own lines go to the same stream.
    sys.stderr.write(f"[launch] {text}\n")
    sys.stderr.flush()


def _check(processes: int, max_restarts: int, min_processes: int | None) -> None:
    for name, value, least in (
        ("processes", processes, 1),
        ("max_restarts", max_restarts, 0),
        ("min_processes", 1 if min_processes is None else min_processes, 1),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise LaunchError(f"{name}={value!r}: expected a whole number of at least {least}.")
    if min_processes is not None and min_processes > processes:
        raise LaunchError(f"min_processes={min_processes} is more than processes={processes}.")
