"""How often something happens, and which of many things are due now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from ._errors import PeriodError

__all__ = ["Every", "Schedule"]

T = TypeVar("T")


@attrs.frozen
class Every:
    """A period: every so many steps, or every so many epochs.

    Steps are counted by `global_step` *after* the step, so `Every(steps=100)` is due when steps 100,
    200, … have finished, whatever the epochs. `Every(epochs=2)` is due at the last step of epochs 2, 4, ….

    Args:
        steps: a positive number of steps, or None.
        epochs: a positive number of epochs, or None. Exactly one of the two is given.

    Raises:
        PeriodError: both or neither were given, or the number is not a positive whole one.

    Example:
        >>> Every(steps=100).due(step=200, epoch=1, last_step=False)
        True
        >>> Every(epochs=2).due(step=7, epoch=2, last_step=False)
        False
    """

    steps: int | None = attrs.field(default=None, kw_only=True)
    epochs: int | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        given = [(name, n) for name, n in (("steps", self.steps), ("epochs", self.epochs)) if n is not None]
        if len(given) != 1:
            raise PeriodError(
                f"Every() takes exactly one of steps and epochs, received steps={self.steps!r}, "
                f"epochs={self.epochs!r}. Write Every(steps=100) or Every(epochs=2)."
            )
        name, number = given[0]
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise PeriodError(f"Every({name}={number!r}): expected a whole number of at least 1.")

    def due(self, step: int, epoch: int, last_step: bool) -> bool:
        """Says whether it is due now.

        Args:
            step: `global_step` after the step, 1 for the first.
            epoch: the running epoch, 1 for the first.
            last_step: whether this step is its epoch's last.
        """
        if self.steps is not None:
            return step % self.steps == 0
        return last_step and self.epochs is not None and epoch % self.epochs == 0

    def __str__(self) -> str:
        number, unit = (self.steps, "step") if self.steps is not None else (self.epochs, "epoch")
        return f"every {unit}" if number == 1 else f"every {number} {unit}s"


EVERY_STEP = Every(steps=1)
"""Each step of the loop."""

EVERY_EPOCH = Every(epochs=1)
"""The last step of each epoch."""


class Schedule(Generic[T]):
    """Tells which of many items with periods are due, for one comparison when only the usual ones are.

    The same tuple object comes back for the same set of due items, so that it can key a cache.

    Args:
        items: pairs of an item and its period. The order is kept in what `due` returns.
    """

    def __init__(self, items: Sequence[tuple[T, Every]]) -> None:
        self._items = tuple(items)
        self.always: tuple[T, ...] = tuple(item for item, every in items if every == EVERY_STEP)
        self._step_periods = [
            every.steps for _, every in items if every.steps is not None and every.steps > 1
        ]
        self._has_epoch_periods = any(every.epochs is not None for _, every in items)
        self._sets: dict[tuple[bool, ...], tuple[T, ...]] = {}
        # 0: the first question is answered in full, wherever the run starts (it may be resumed).
        self._next_step: float = 0

    def due(self, step: int, epoch: int, last_step: bool) -> tuple[T, ...]:
        """Items due at this step, in their order. See `Every.due` for the arguments."""
        if step < self._next_step and not (last_step and self._has_epoch_periods):
            return self.always
        self._next_step = min(((step // k + 1) * k for k in self._step_periods), default=float("inf"))
        flags = tuple(every.due(step, epoch, last_step) for _, every in self._items)
        if flags not in self._sets:
            chosen = tuple(item for (item, _), flag in zip(self._items, flags) if flag)
            self._sets[flags] = self.always if chosen == self.always else chosen
        return self._sets[flags]
