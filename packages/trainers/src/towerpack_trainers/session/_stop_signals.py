"""Ctrl-C and SIGTERM, during a whole training."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks
from towerpack_callbacks.checkpoint import save_now

__all__ = ["StopRequests", "StopSignals"]

_log = logging.getLogger("towerpack_trainers")


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IGNORES_CTRL_C = (
    "This process was started to ignore SIGINT, as shells do for background jobs: Ctrl-C does not end "
    "this training. Use `kill %d` (SIGTERM) to end it and save."
)


# Hooks of `os.register_at_fork` stay for the life of a process.
_watching: weakref.WeakSet[StopSignals] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for signals in list(_watching):
        signals._let_go_in_child()
    _watching.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


@final
class StopSignals:
    """While it is entered, the first Ctrl-C or SIGTERM stops the loop; a second one ends the process.

    The effect of the first one depends on the phase of the training:

    | phase | effect |
    | --- | --- |
    | before the first step | the training ends: there is nothing to save |
    | steps, evaluations | `requested` is set; the loop finishes step and triggers, saves, leaves |
    | … that do not end within 10 s | `cancel` is called, and waits in Python are interrupted |
    | saving, leaving | the phase is finished |

    A Python signal handler runs between two instructions, and so not while a step waits for data. Therefore
    a thread receives signals as well: the C library writes them to a socket (`signal.set_wakeup_fd`).

    A forked process inherits none of it: it would write its own signals to that socket, and keep it open.

    Outside of the main thread nothing is installed, and signals that the process ignores or handles itself
    are not changed. At the end the original state is restored; then the exception of the signal is raised:
    `KeyboardInterrupt`, or `SystemExit(143)`.

    Args:
        cancel: ends the wait of a step for data; called on another thread.
        grace_seconds: the time, in seconds, for a step or an evaluation to end before it is interrupted.
        debounce_seconds: signals within this time after the first, in seconds, count as one: a supervisor may
            signal the process and its group at the same time.
        retry_seconds: the time between interruptions, in seconds. A signal right before the main thread
            begins to wait for a lock does not end that wait.
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
        # Handlers are not restored meanwhile: the old ones may end the process.
        self._sending = threading.Lock()

    # ---- what the trainer calls

    def begin(self) -> None:
        """Begins the phase with something to save."""
        self._phase = "training"

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Returns a context that only a second signal interrupts."""
        before, self._phase = self._phase, "saving"
        try:
            yield
        finally:
            self._phase = before

    def leave(self) -> None:
        """Begins the last phase: training is ending."""
        self._phase = "leaving"

    def exception(self) -> BaseException:
        """Returns the exception for a training stopped by a signal."""
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
            # Closing alone would not end the thread while a forked process has the socket.
            self._writer.shutdown(socket.SHUT_RDWR)
            self._writer.close()
            self._thread.join()
            self._reader.close()
            _watching.discard(self)
        if self.requested is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
            return
        # An error on the way out takes precedence, unless our own cancelling caused it.
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
        _watching.add(self)

    def _let_go_in_child(self) -> None:
        """Restores the state from before, in a process that was just forked from this one."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        assert self._reader is not None
        self._reader.close()
        self._writer.close()

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
            self._interrupt()  # we must not end the process of an interactive session
        else:
            # At once, regardless of the main thread's state. Workers end with their parent.
            os._exit(128 + number)

    def _interrupt(self) -> None:
        """Interrupts the running step or evaluation repeatedly, until that has an effect."""
        assert self._reader is not None
        assert self.requested is not None
        if not self._interruptible or (self._interrupting and self._raised):
            self._reader.settimeout(None)
            return
        if not self._interrupting:
            _log.warning(
                "The work that was running when %s arrived has not ended within %g s. It is interrupted; "
                "progress after the last checkpoint is not saved.",
                self.requested.name,
                self._grace_seconds,
            )
            self._interrupting = True
            self._cancel()
        self._reader.settimeout(self._retry_seconds)
        with self._sending:
            if self._interruptible:
                self._resent = True
                # Ends a wait of the main thread in Python; `cancel` ends one in TensorFlow.
                signal.pthread_kill(threading.main_thread().ident or 0, self.requested)

    @property
    def _interruptible(self) -> bool:
        return self._phase in {"start", "training"}


@final
@attrs.frozen(eq=False)
class StopRequests:
    """Ends the loop after an error of a background thread, or after a signal.

    Attributes:
        coord: the coordinator to which threads report their errors.
        signals: receives signals.
        callbacks: the callbacks of the run; one of them may save.
        is_chief: whether this process saves.
    """

    coord: tf.train.Coordinator
    signals: StopSignals
    callbacks: Callbacks
    is_chief: bool

    def follow(self, amid_triggers: bool = False) -> None:
        """Raises the error of a failed thread; after a signal, saves and stops.

        Args:
            amid_triggers: whether more callbacks have to be triggered first; a signal then waits.

        Raises:
            KeyboardInterrupt, SystemExit: after Ctrl-C, or after SIGTERM.
            Exception: the error of a thread.
        """
        self.coord.raise_requested_exception()
        if self.signals.requested is None or amid_triggers:
            return
        with self.signals.saving():
            if not save_now(self.callbacks) and self.is_chief:
                _log.warning("There is no ModelSaver among the callbacks, so nothing is saved.")
        raise self.signals.exception()
