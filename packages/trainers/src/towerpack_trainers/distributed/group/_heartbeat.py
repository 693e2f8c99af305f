"""Signs of life: a thread that finds out which process is lost, whatever the training is doing.

Every process has one line to the chief. Both sides say regularly that they live, and how far they are. A line
that closes, or is silent for too long, means a lost process; the chief tells all others which. Collectives
cannot do that: they fail with errors that name no one, or do not fail at all.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs

from ._connection import Line

__all__ = ["Progress", "Verdict", "Watch"]

_log = logging.getLogger("towerpack_trainers")


@attrs.frozen
class Verdict:
    """Which process is lost, and why: what all others have to stop for."""

    rank: int | None
    why: str


class Progress(NamedTuple):
    """How many steps a process has finished, and whether it is in the next one."""

    steps: int
    in_step: bool


class Watch:
    """Watches the processes of a group, in a thread.

    Args:
        rank: this process.
        names: how to call each rank.
        lines: by rank: the chief's to all others, the others' to the chief.
        timeout: seconds of silence after which a process is lost.
        on_verdict: called in the thread, once, when a process is lost.
        on_beat: called in the thread, about every second.
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        lines: dict[int, Line],
        timeout: float,
        on_verdict: Callable[[], None],
        on_beat: Callable[[], None],
    ) -> None:
        self.verdict: Verdict | None = None
        self.decided = threading.Event()
        self.progress: dict[int, Progress] = {}
        self.reasons: dict[int, str] = {}
        self._rank, self._names = rank, names
        self._lines = dict(lines)
        self._timeout = timeout
        self._on_verdict, self._on_beat = on_verdict, on_beat
        self._interval = min(1.0, timeout / 5)
        self._outbox: list[dict[str, Any]] = []
        self._leaving = False
        self._wake, self._woken = socket.socketpair()
        self._heard = {rank: time.monotonic() for rank in lines}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        for rank, line in lines.items():
            self._selector.register(line, selectors.EVENT_READ, rank)
        self._thread = threading.Thread(target=self._run, name="towerpack-watch", daemon=True)
        self._thread.start()

    # ---- called by the training

    def note(self, steps: int, in_step: bool) -> None:
        """Notes how far this process is; costs next to nothing."""
        self.progress[self._rank] = Progress(steps, in_step)

    def say(self, **message: Any) -> None:
        """Tells all others something at once."""
        self._outbox.append({"from": self._rank, **message})
        with contextlib.suppress(OSError):  # the thread has ended, so nobody is left to be told
            self._wake.send(b".")

    def leave(self, failure: str | None = None) -> None:
        """Says that this process goes, in good order or because of a failure, and ends the thread."""
        if self._thread.is_alive():
            self._leaving = True
            self.say(**({"left": True} if failure is None else {"failed": failure}))
            self._thread.join(10)
        self._wake.close()

    # ---- the thread

    def _run(self) -> None:
        next_beat = 0.0
        while True:
            if time.monotonic() >= next_beat:
                self._send_all(self._beat())
                self._on_beat()
                next_beat = time.monotonic() + self._interval
            ready = self._selector.select(max(next_beat - time.monotonic(), 0))
            # What has arrived is read before anyone is judged: this process may have been stopped itself.
            for key, _ in ready:
                if key.data is None:
                    self._woken.recv(1 << 10)
                elif key.data in self._lines:
                    self._heard[key.data] = time.monotonic()
                    self._read(key.data)
            self._judge_silence()
            while self._outbox:
                self._send_all(self._outbox.pop(0))
            if self._leaving and not self._outbox:
                break
        self._selector.close()
        for line in self._lines.values():
            line.close()
        self._woken.close()

    def _beat(self) -> dict[str, Any]:
        known = {**self.progress}
        told = known if self._rank == 0 else {self._rank: known[self._rank]} if self._rank in known else {}
        return {"from": self._rank, "progress": [[rank, *progress] for rank, progress in told.items()]}

    def _read(self, rank: int) -> None:
        try:
            messages = self._lines[rank].receive_pending()
        except (OSError, EOFError) as error:
            self._decide(rank, f"its process has ended, or was cut off ({_text(error)})")
            return
        except ValueError as error:
            self._decide(rank, f"its signs of life are damaged: {error}")
            return
        for message in messages:
            self._take(rank, message)

    def _take(self, rank: int, message: dict[str, Any]) -> None:
        sender = message.get("from", rank)
        for who, steps, in_step in message.get("progress", ()):
            if who != self._rank:
                self.progress[who] = Progress(steps, in_step)
        if "stops" in message:
            self.reasons[sender] = message["stops"]
        if "lost" in message:
            self._decide(message["lost"], message["why"], sender=rank)
        if "failed" in message:
            self._decide(sender, f"it failed: {message['failed']}", sender=rank)
        if "stops" in message and self._rank == 0:
            self._outbox.append(message)
        if "left" in message:
            self._drop(rank)

    def _judge_silence(self) -> None:
        now = time.monotonic()
        for rank in list(self._lines):
            if now - self._heard[rank] > self._timeout:
                self._decide(
                    rank, f"it gave no sign of life for {self._timeout:g} s: it hangs, or the network does"
                )

    def _decide(self, rank: int, why: str, sender: int | None = None) -> None:
        """Settles who is lost. The first verdict counts: what comes after is its consequence."""
        if self.verdict is None:
            self.verdict = Verdict(rank, why)
            if self._rank == 0:
                self._send_all({"from": 0, "lost": rank, "why": why})
            self.decided.set()
            self._on_verdict()
        if sender is None:
            self._drop(rank)

    def _send_all(self, message: dict[str, Any]) -> None:
        for rank, line in list(self._lines.items()):
            if message["from"] == rank:
                continue
            try:
                line.send(message, self._interval)
            except TimeoutError:
                pass  # it does not read: its silence will be judged
            except OSError as error:
                # What it has said before it went may still be unread, and says more.
                _log.debug("%s cannot be told %s: %s", self._names[rank], message, error)

    def _drop(self, rank: int) -> None:
        line = self._lines.pop(rank, None)
        if line is not None:
            self._selector.unregister(line)
            line.close()


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
