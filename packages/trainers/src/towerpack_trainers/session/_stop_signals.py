"""Ctrl-C and SIGTERM, from the first moment of a training to the last."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, final

__all__ = ["StopSignals"]

_log = logging.getLogger("towerpack_trainers")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IGNORES_CTRL_C = (
    "This process was started to ignore SIGINT, as a shell starts what runs in the background: Ctrl-C does "
    "not end this training. `kill %d` (SIGTERM) does, in good order."
)


@final
class StopSignals:
    """While it is entered, the first Ctrl-C or SIGTERM makes the loop stop; a second one ends the process.

    What the first one does depends on where the training is:

    | phase | what happens |
    | --- | --- |
    | before the first step | it ends there: there is nothing to save |
    | steps, evaluations | `requested` is set; the loop finishes step and triggers, saves, leaves |
    | … that do not end within 10 s | `cancel` is called, and waits in Python are interrupted |
    | saving, leaving | it is finished |

    A handler of Python's runs between two of its instructions, so not while a step waits for data. Therefore
    a thread receives signals, too: the C library writes them to a socket (`signal.set_wakeup_fd`).

    Outside of the main thread nothing is installed, and a signal that the process ignores or handles by
    itself is left alone. At the end everything is as it was; then the exception of the signal is raised:
    `KeyboardInterrupt`, or `SystemExit(143)`.

    Args:
        cancel: ends the wait of a step for data; called on another thread.
        grace_seconds: how long a step or an evaluation may take to end by itself.
        debounce_seconds: signals this close to the first count as one: a supervisor may signal the process
            and its group at once.
        retry_seconds: time from one interruption to the next. A signal right before the main thread begins
            to wait for a lock does not end that wait.
    """

    def __init__(
        self,
        cancel: Callable[[], None],
        grace_seconds: float = 10.0,
        debounce_seconds: float = 0.5,
        retry_seconds: float = 0.5,
    ) -> None:
        self.requested: signal.Signals | None = None
        self._cancel = cancel
        self._grace_seconds = grace_seconds
        self._debounce_seconds = debounce_seconds
        self._retry_seconds = retry_seconds
        self._phase = "start"
        self._interrupting = False
        self._raised = False
        self._resent = False
        self._first_at: float | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._old_wakeup = -1
        self._reader: socket.socket | None = None
        # Handlers are not put back meanwhile: the old ones may end the process.
        self._sending = threading.Lock()

    # ---- what the trainer calls

    def begin(self) -> None:
        """Begins the phase in which there is something to save."""
        self._phase = "training"

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Returns a context that nothing but a second signal interrupts."""
        before, self._phase = self._phase, "saving"
        try:
            yield
        finally:
            self._phase = before

    def leave(self) -> None:
        """Begins the last phase: training is ending."""
        self._phase = "leaving"

    def exception(self) -> BaseException:
        """Returns what a training that a signal has stopped ends with."""
        assert self.requested is not None
        if self.requested == signal.SIGINT:
            return KeyboardInterrupt()
        return SystemExit(128 + self.requested)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
                _log.warning(_IGNORES_CTRL_C, os.getpid())
            ours = {number: signal.getsignal(number) for number in _SIGNALS}
            self._before = {
                number: handler
                for number, handler in ours.items()
                if handler in (signal.SIG_DFL, signal.default_int_handler)
            }
        if self._before:
            self._start_thread()
            for number in self._before:
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()
        with self._sending:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if self._reader is not None:
            signal.set_wakeup_fd(self._old_wakeup, warn_on_full_buffer=False)
            self._writer.close()
            self._thread.join()
            self._reader.close()
        if self.requested is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
            return
        # An error on the way out counts more, unless it is the one that our own cancelling made.
        if error is None or self._interrupting:
            raise self.exception() from None

    # ---- on the main thread

    def _handle(self, number: int, frame: Any) -> None:
        self.requested = self.requested or signal.Signals(number)
        interrupts = self._phase == "start" or (self._interrupting and self._phase == "training")
        if interrupts and not self._raised:
            self._raised = True
            raise self.exception()

    # ---- on the thread that receives signals

    def _start_thread(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="towerpack-signals", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        assert self._reader is not None
        while True:
            try:
                received = self._reader.recv(1)
            except TimeoutError:
                self._interrupt()
                continue
            if not received:
                return
            self._forward(received)
            if received[0] in self._before:
                self._receive(signal.Signals(received[0]))

    def _forward(self, received: bytes) -> None:
        """Forwards a signal to its earlier receiver, such as the event loop of a notebook."""
        if self._old_wakeup != -1:
            with contextlib.suppress(OSError):
                os.write(self._old_wakeup, received)

    def _receive(self, number: signal.Signals) -> None:
        assert self._reader is not None
        if self._resent:
            self._resent = False
        elif self._first_at is None:
            self._first_at = time.monotonic()
            self.requested = self.requested or number
            self._reader.settimeout(self._grace_seconds)
        elif time.monotonic() - self._first_at < self._debounce_seconds:
            return
        elif hasattr(sys, "ps1"):
            self._interrupt()  # the process of an interactive session is not ours to end
        else:
            # At once, whatever the main thread is doing. Workers end with their parent.
            os._exit(128 + number)

    def _interrupt(self) -> None:
        """Interrupts the running step or evaluation, again and again until that has an effect."""
        assert self._reader is not None
        assert self.requested is not None
        if not self._interruptible or (self._interrupting and self._raised):
            self._reader.settimeout(None)
            return
        if not self._interrupting:
            _log.warning(
                "What was running when %s came has not ended within %g s. It is interrupted; nothing after "
                "the last checkpoint is saved.",
                self.requested.name,
                self._grace_seconds,
            )
            self._interrupting = True
            self._cancel()
        self._reader.settimeout(self._retry_seconds)
        with self._sending:
            if self._interruptible:
                self._resent = True
                # Ends a wait of the main thread in Python; one in TensorFlow is ended by `cancel`.
                signal.pthread_kill(threading.main_thread().ident or 0, self.requested)

    @property
    def _interruptible(self) -> bool:
        return self._phase in {"start", "training"}
