"""How much of a run's time went to steps that count, over all its restarts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import final

import attrs

from ._read_record import Segment

__all__ = ["Goodput", "Stretch", "measure_goodput"]


@final
@attrs.frozen
class Stretch:
    """What one process has contributed.

    Attributes:
        start, end: seconds since 1970, of its first and last sign in the record.
        first_step, last_step: finished steps at these moments.
        kept_step: the step from which the run went on, or would go on; what was done after it is lost.
        ended: whether the training came to an end; else it goes on or was killed.
        reason: why it ended; empty if all epochs are done, or it did not end.
        training, waiting, saving, lost: seconds; they add up to `end - start`.
    """

    start: float
    end: float
    first_step: int
    last_step: int
    kept_step: int
    ended: bool
    reason: str
    training: float
    waiting: float
    saving: float
    lost: float


@final
@attrs.frozen
class Goodput:
    """Where the time of a run went, in seconds.

    Attributes:
        stretches: one for each start.
        restarting: from the last sign of one process to the first step of the next.
    """

    stretches: tuple[Stretch, ...]
    restarting: float

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by what they went to; they add up to the time from the first start to the last sign."""
        parts = {
            name: sum(getattr(stretch, name) for stretch in self.stretches)
            for name in ("training", "waiting", "saving")
        }
        return {
            "training": parts["training"],
            "waiting for data": parts["waiting"],
            "saving": parts["saving"],
            "restarting": self.restarting,
            "lost since a checkpoint": sum(stretch.lost for stretch in self.stretches),
        }

    @property
    def share(self) -> float:
        """The share of the time that went to training, in [0, 1]."""
        total = sum(self.seconds.values())
        return self.seconds["training"] / total if total else 0.0


def measure_goodput(segments: Sequence[Segment], saved_step: int | None) -> Goodput:
    """Adds up the time of a run.

    Args:
        segments: the record of the run, in order.
        saved_step: the step of the newest checkpoint, from which a run that was killed would go on; None if
            there is none. Of a last segment that has come to its end, nothing is lost.
    """
    resumed = [segment.events[0].step for segment in segments[1:]]
    last = None if segments and segments[-1].ended else (saved_step or 0)
    stretches = tuple(_stretch(segment, kept) for segment, kept in zip(segments, [*resumed, last]))
    gaps = itertools.pairwise(stretches)
    # Clocks of two hosts, or one that was set, may differ.
    return Goodput(stretches, sum(max(0.0, after.start - before.end) for before, after in gaps))


def _stretch(segment: Segment, kept_step: int | None) -> Stretch:
    events = segment.events
    start, last = events[0], max(events, key=lambda event: event.time)
    kept = last.step if kept_step is None else min(max(kept_step, start.step), last.step)
    reached = next((event for event in events if event.step >= kept), last)
    # Without steps after it, the time up to the last sign counts: the end of the training, and its saving.
    counted = last if kept == last.step else reached
    spent = counted.spent
    until = max(counted.time, start.time)  # the clock may have been set back
    span = until - start.time
    waiting = min(span, max(0.0, spent.get("wait", 0.0)))
    saving = min(span - waiting, max(0.0, spent.get("save", 0.0)))
    return Stretch(
        start=start.time,
        end=last.time,
        first_step=start.step,
        last_step=last.step,
        kept_step=kept,
        ended=segment.ended,
        reason=segment.reason,
        training=span - waiting - saving,
        waiting=waiting,
        saving=saving,
        lost=last.time - until,
    )
