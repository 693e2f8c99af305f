"""Warns when no step finishes for a long time, and reports whether the step waits for data."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import final

from towerpack_callbacks import Callback
from towerpack_inputsource import InputSource, InputStatus

__all__ = ["StallWatch", "describe_stall"]

_log = logging.getLogger("towerpack_trainers")


@final
class StallWatch(Callback):
    """Warns when no step has finished for some time: once, and again each time the wait has doubled.

    It watches from an epoch's first step to its last, and during evaluations; other callbacks after an epoch
    have no limit. It warns about an evaluation when no batch has finished for some time, and, if the length
    of its input is unknown, when the whole evaluation takes longer. It does not watch the workers of a
    parallel flow: the flow itself warns about those, and reports their activity.

    Args:
        source: the training's input; None without one.
        seconds: the maximum time of a step, in seconds.
    """

    chief_only = False

    def __init__(self, source: InputSource | None, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._running = False
        self._evaluation_limit = seconds
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def _before_train(self) -> None:
        self._end.clear()
        self._thread = threading.Thread(target=self._watch, name="towerpack-stall-watch", daemon=True)
        self._thread.start()

    def _before_epoch(self) -> None:
        self._running = True

    def _after_epoch(self) -> None:
        self._running = False

    def _after_train(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        seen, since, limit = -1, time.monotonic(), self._seconds
        while not self._end.wait(self._seconds / 4):
            step, now = self.global_step, time.monotonic()
            self._watch_evaluations(now)
            if step != seen or not self._running:
                if limit > self._seconds and step != seen:
                    _log.warning("Steps finish again: step %d did after %.0f s.", step, now - since)
                seen, since, limit = step, now, self._seconds
            elif now - since >= limit:
                limit = 2 * (now - since)
                _log.warning("%s", self._describe(now - since))

    def _watch_evaluations(self, now: float) -> None:
        towers = getattr(self.trainer, "evaluation_towers", ())
        rounds = [progress for tower in towers if (progress := tower.progress) is not None]
        if not rounds:
            self._evaluation_limit = self._seconds
        for progress in rounds:
            unknown = progress.source.size() is None
            if now - (progress.began if unknown else progress.newest) >= self._evaluation_limit:
                self._evaluation_limit *= 2
                _log.warning(
                    "The evaluation in %r has run for %.0f s: %d batches, the latest %.0f s ago.%s Input: %s",
                    progress.name,
                    now - progress.began,
                    progress.batches,
                    now - progress.newest,
                    " The length of its input is unknown; if it never ends, use FixedSizeData(flow, size)."
                    if unknown
                    else "",
                    progress.source.status(),
                )

    def _describe(self, seconds: float) -> str:
        loop = self.trainer.loop
        where = f"epoch {loop.epoch_num}, local step {loop.local_step}, global step {loop.global_step}"
        status = None if self._source is None else self._source.status()
        return (
            f"No step has finished for {seconds:.0f} s ({where}). {describe_stall(status)}\n"
            f"What Python's threads are doing:\n{_stacks(skip=threading.get_ident())}"
        )


def describe_stall(status: InputStatus | None) -> str:
    """Describes whether the step waits for data, and the reason of the wait, from the status of the input.

    Args:
        status: the status of the input; None without one.
    """
    if status is None:
        return "There is no input to wait for, so the step itself, or a callback, is busy or stuck."
    if any(buffer.fill == 0 for buffer in status.buffers):
        waiting = [thread for thread in status.threads if thread.doing == "flow"]
        reason = (
            f"The step waits for data, and {waiting[0].name} waits for the flow's next datapoint"
            if waiting
            else "The step waits for data, and no datapoint is being produced"
        )
    elif status.buffers and all(buffer.fill for buffer in status.buffers):
        reason = "Data is available, so the step itself, or a callback, is busy or stuck"
    else:
        reason = "It is not known whether the step waits for data"
    return f"{reason}. {status}"


def _stacks(skip: int) -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        if ident != skip:
            stack = "".join(traceback.format_stack(frame))
            parts.append(f"thread {names.get(ident, ident)!r}:\n{stack}")
    return "\n".join(parts)
