"""Rules that select the checkpoints to keep, by step and by the values of a statistic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs

from ..callback import check_choice, check_count

__all__ = ["KeepBest", "Retention"]


def _positive(holder: object, attribute: Any, value: object) -> None:
    check_count(f"{attribute.name}={value!r}", value, optional=attribute.default is None)


@final
@attrs.frozen
class KeepBest:
    """Keeps the checkpoints at which a statistic was best.

    The value of a checkpoint is the one put at exactly its step. Checkpoints without a value, or with NaN,
    are never among the best. Of equal values, the earlier one is better.

    Args:
        stat: name of the statistic, such as "validation_accuracy".
        mode: "max" if larger is better, or "min".
        count: the number of best checkpoints to keep.

    Raises:
        ValueError: the mode is neither "max" nor "min", or the count is below 1.

    Example:
        ```python
        ModelSaver(keep_last=3, keep_best=KeepBest("validation_error", "min", count=5))
        ```
    """

    stat: str
    mode: str = attrs.field(default="max")
    count: int = attrs.field(default=1, validator=_positive)

    @mode.validator
    def _check_mode(self, attribute: attrs.Attribute[str], value: object) -> None:
        check_choice(f"KeepBest(mode={value!r})", value, ("max", "min"))

    def choose(self, values: Mapping[int, float]) -> set[int]:
        """Selects the best steps.

        Args:
            values: values of the statistic, by step.
        """
        sign = -1 if self.mode == "max" else 1
        known = [(sign * value, step) for step, value in values.items() if not math.isnan(value)]
        return {step for _, step in sorted(known)[: self.count]}


@final
@attrs.frozen(kw_only=True)
class Retention:
    """The rules of one saver: a checkpoint is kept if any rule selects it.

    Args:
        keep_last: the number of newest checkpoints to keep; None: all.
        keep_best: keep the checkpoints with the best values of a statistic.
        keep_every: keep the first checkpoint in each interval of this many steps, forever.

    Raises:
        ValueError: a number is below 1.
    """

    keep_last: int | None = attrs.field(default=None, validator=_positive)
    keep_best: KeepBest | None = None
    keep_every: int | None = attrs.field(default=None, validator=_positive)

    def choose(self, steps: Sequence[int], values: Mapping[int, float]) -> set[int]:
        """Selects the steps of the checkpoints to keep.

        Args:
            steps: the steps of all existing checkpoints.
            values: known values of the statistic of `keep_best`, by step.
        """
        if self.keep_last is None:
            return set(steps)
        ordered = sorted(steps)
        kept = set(ordered[-self.keep_last :])
        if self.keep_best is not None:
            kept |= self.keep_best.choose({step: values[step] for step in ordered if step in values})
        if self.keep_every is not None:
            # Reversed, so that the first step of each interval remains in the dictionary.
            kept |= set({step // self.keep_every: step for step in reversed(ordered)}.values())
        return kept
