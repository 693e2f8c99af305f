"""Measures the goodput of a run: the fraction of its time spent on kept steps, over all restarts."""

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
    """The contribution of one process.

    Attributes:
        start, end: times of its first and last event in the record, in seconds since 1970.
        first_step, last_step: finished steps at these times.
        kept_step: the step from which the run was or would be resumed; later steps are lost.
        ended: whether the training ended; otherwise it is running or was killed.
        reason: the reason of the end; empty after all epochs, or if it did not end.
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
    """The use of time of a run, in seconds.

    Attributes:
        stretches: one for each start.
        restarting: seconds from the last event of one process to the first step of the next.
    """

    stretches: tuple[Stretch, ...]
    restarting: float

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by use; they add up to the time from the first start to the last event."""
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
        """The fraction of the time spent on training, in [0, 1]."""
        total = sum(self.seconds.values())
        return self.seconds["training"] / total if total else 0.0


def measure_goodput(segments: Sequence[Segment], saved_step: int | None) -> Goodput:
    """Adds up the time of a run.

    Args:
        segments: the record of the run, in order.
        saved_step: the step of the newest checkpoint, from which a killed run would resume; None without
            checkpoints. A last segment that has ended loses no steps.
    """
    resumed = [segment.events[0].step for segment in segments[1:]]
    last = None if segments and segments[-1].ended else (saved_step or 0)
    stretches = tuple(_stretch(segment, kept) for segment, kept in zip(segments, [*resumed, last]))
    gaps = itertools.pairwise(stretches)
    # Clocks may differ between hosts, or may have been set.
    return Goodput(stretches, sum(max(0.0, after.start - before.end) for before, after in gaps))


def _stretch(segment: Segment, kept_step: int | None) -> Stretch:
    events = segment.events
    start, last = events[0], max(events, key=lambda event: event.time)
    kept = last.step if kept_step is None else min(max(kept_step, start.step), last.step)
    reached = next((event for event in events if event.step >= kept), last)
    # Without later steps, the time up to the last event counts: the end of the training and its last
    # checkpoint.
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
