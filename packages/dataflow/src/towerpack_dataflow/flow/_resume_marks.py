"""Resume marks: notes of operators during a pass, so that resuming need not begin at its start.

Without marks, a stream repeats its pass: a replay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from time import perf_counter
from typing import Any, ClassVar, Self, final

__all__ = ["Mark", "Marks", "Replay", "replayed"]

_log = logging.getLogger("towerpack_dataflow")

_LONG = 1.0  # seconds

Marks = dict[str, Iterable[int]]
"""The marks of one pass over a whole tree keyed by the place of the flow (see `Epoch.key`).

Either a flow's live `Mark`, which changes during the pass, or its numbers from a loaded state.
"""


class Mark:
    """The progress of one operator in one pass; a state holds it as integers in the order of `fields`.

    Args:
        outer_epoch: of the `Epoch` that the mark is for.
        epoch: number of the operator's epoch.
    """

    __slots__ = ("epoch", "outer_epoch")

    fields: ClassVar[tuple[str, ...]] = ("outer_epoch", "epoch")

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Creates a mark at the beginning of an epoch."""
        self.outer_epoch = outer_epoch
        self.epoch = epoch

    @classmethod
    def from_list(cls, numbers: Iterable[int] | None) -> Self | None:
        """Returns the mark with these `numbers`; `None` if they are not a mark of this class.

        A state of another flow may have other marks at the same place; passes then start over.
        """
        if numbers is None or isinstance(numbers, cls):
            return numbers
        values = list(numbers)
        if len(values) != len(cls.fields):
            return None
        mark = cls.__new__(cls)
        for name, value in zip(cls.fields, values, strict=True):
            setattr(mark, name, value)
        return mark

    def belongs_to(self, outer_epoch: int, epoch: int) -> bool:
        """Tells whether this mark was made in that epoch."""
        return self.outer_epoch == outer_epoch and self.epoch == epoch

    def __iter__(self) -> Iterator[int]:
        """Yields the integers in the order of `fields`."""
        return iter([getattr(self, name) for name in self.fields])

    def __repr__(self) -> str:
        """Shows the numbers with their names."""
        numbers = ", ".join(f"{name}={getattr(self, name)}" for name in self.fields)
        return f"{type(self).__name__}({numbers})"


@final
class Replay:
    """Counts replayed datapoints and logs a warning if the replay takes longer than a second.

    Args:
        name: name of the flow.
        epoch: number of the pass.
        count: number of datapoints to drop.
    """

    __slots__ = ("_began", "_count", "_done", "_epoch", "_name")

    def __init__(self, name: str, epoch: int, count: int) -> None:
        """Starts the clock."""
        self._name = name
        self._epoch = int(epoch)
        self._count = count
        self._done = 0
        self._began: float | None = perf_counter()  # `None` after the warning

    def drop(self) -> None:
        """Counts one dropped datapoint."""
        self._done += 1
        if self._began is None or (seconds := perf_counter() - self._began) < _LONG:
            return
        self._began = None
        _log.warning(
            "%s makes the first %d datapoints of epoch %d again and drops them, to resume from a state; "
            "the first %d took %.1f s. If its datapoints cannot be read again (a queue, a "
            "simulator), nothing has to be repeated: set live=True in DataFromGenerator or "
            "DataFromIterable, or live = True in a custom class. A flow with datapoint(epoch, index) "
            "resumes at once",
            self._name,
            self._count,
            self._epoch,
            self._done,
            seconds,
        )


def replayed(name: str, epoch: int, datapoints: Iterator[Any], count: int) -> Iterator[Any]:
    """Returns the datapoints of a pass made from its beginning, without the first `count`."""
    return chain.from_iterable(_rest(name, epoch, datapoints, count)) if count else datapoints


def _rest(name: str, epoch: int, datapoints: Iterator[Any], count: int) -> Iterator[Iterator[Any]]:
    """Yields the remaining datapoints as one iterator: reading them costs the same as without a replay."""
    replay = Replay(name, epoch, count)
    for done, datapoint in enumerate(datapoints, 1):
        del datapoint  # its memory is for the next one
        replay.drop()
        if done == count:
            break
    yield datapoints
