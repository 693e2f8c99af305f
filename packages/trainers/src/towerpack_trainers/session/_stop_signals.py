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
from typing import Any

__all__ = ["StopSignals"]

_log = logging.getLogger("towerpack_trainers")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long what is running may take to come to an end by itself: a step, an evaluation.
GRACE_SECONDS = 10.0
# Who stops a process may signal it and its group, both at once; that is one wish.
_BOUNCE_SECONDS = 0.5
# A signal that comes right before the main thread begins to wait for a lock does not end that wait.
_AGAIN_SECONDS = 0.5


class StopSignals:
    """While it is entered, the first Ctrl-C or SIGTERM asks the loop to stop; a second one ends the process.

    What the first one does depends on where the training is:

    | phase | what happens |
    | --- | --- |
    | before the first step | it ends there: there is nothing to save |
    | steps, evaluations | `requested` is set; the loop finishes step and triggers, saves, leaves |
    | … that do not end within 10 s | `cancel` is called, and what waits in Python is interrupted |
    | saving, leaving | it is finished |

    A handler of Python's runs between two of its instructions, so not while a step waits for data. Therefore
    a thread listens, too: the C library tells it of a signal through a socket (`signal.set_wakeup_fd`).

    Outside of the main thread nothing is installed, and a signal that the process ignores or handles by
    itself is left alone. At the end everything is as it was; then the exception of the signal is raised:
    `KeyboardInterrupt`, or `SystemExit(143)`.

    Args:
        cancel: makes a step that waits for data give up; called on another thread.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.requested: signal.Signals | None = None
        self._cancel = cancel
        self._phase = "start"
        self._hurried = False
        self._raised = False
        self._resent = False
        self._heard_at: float | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._old_wakeup = -1
        self._reader: socket.socket | None = None
        # Handlers are not put back meanwhile: the old ones may end the process.
        self._interrupting = threading.Lock()

    # ---- what the trainer calls

    def begin(self) -> None:
        """From now on there is something to save."""
        self._phase = "training"

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """In it, nothing but a second signal interrupts."""
        before, self._phase = self._phase, "saving"
        try:
            yield
        finally:
            self._phase = before

    def leave(self) -> None:
        """From now on it ends anyway."""
        self._phase = "leaving"

    def exception(self) -> BaseException:
        """What a training ends with that was asked to stop."""
        assert self.requested is not None
        if self.requested == signal.SIGINT:
            return KeyboardInterrupt()
        return SystemExit(128 + self.requested)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            ours = {number: signal.getsignal(number) for number in _SIGNALS}
            self._before = {
                number: handler
                for number, handler in ours.items()
                if handler in (signal.SIG_DFL, signal.default_int_handler)
            }
        if self._before:
            self._listen()
            for number in self._before:
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()
        with self._interrupting:
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
        if error is None or self._hurried:
            raise self.exception() from None

    # ---- on the main thread

    def _handle(self, number: int, frame: Any) -> None:
        self.requested = self.requested or signal.Signals(number)
        interrupts = self._phase == "start" or (self._hurried and self._phase == "training")
        if interrupts and not self._raised:
            self._raised = True
            raise self.exception()

    # ---- on the thread that listens

    def _listen(self) -> None:
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
                self._hurry()
                continue
            if not received:
                return
            self._pass_on(received)
            if received[0] in self._before:
                self._receive(signal.Signals(received[0]))

    def _pass_on(self, received: bytes) -> None:
        """To whom signals were told before, such as the event loop of a notebook."""
        if self._old_wakeup != -1:
            with contextlib.suppress(OSError):
                os.write(self._old_wakeup, received)

    def _receive(self, number: signal.Signals) -> None:
        assert self._reader is not None
        if self._resent:
            self._resent = False
        elif self._heard_at is None:
            self._heard_at = time.monotonic()
            self.requested = self.requested or number
            self._reader.settimeout(GRACE_SECONDS)
        elif time.monotonic() - self._heard_at < _BOUNCE_SECONDS:
            return
        elif hasattr(sys, "ps1"):
            self._hurry()  # the process of an interactive session is not ours to end
        else:
            # At once, whatever the main thread is doing. Workers end with their parent.
            os._exit(128 + number)

    def _hurry(self) -> None:
        """Interrupts what is running, and again after a while if that went unnoticed."""
        assert self._reader is not None
        assert self.requested is not None
        if not self._interruptible or (self._hurried and self._raised):
            self._reader.settimeout(None)
            return
        if not self._hurried:
            _log.warning(
                "What was running when %s came has not ended within %g s. It is interrupted; nothing after "
                "the last checkpoint is saved.",
                self.requested.name,
                GRACE_SECONDS,
            )
            self._hurried = True
            self._cancel()
        self._reader.settimeout(_AGAIN_SECONDS)
        with self._interrupting:
            if self._interruptible:
                self._resent = True
                # Ends what the main thread waits for in Python; in TensorFlow, cancelling does.
                signal.pthread_kill(threading.main_thread().ident or 0, self.requested)

    @property
    def _interruptible(self) -> bool:
        return self._phase in {"start", "training"}
