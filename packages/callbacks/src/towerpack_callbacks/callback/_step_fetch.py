"""What a callback fetches along with the training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ._every import EVERY_STEP, Every, as_every

__all__ = ["StepFetch"]


@final
@attrs.frozen(eq=False)  # tensors do not compare to one truth value
class StepFetch:
    """Something a callback wants fetched together with the training step.

    Args:
        fetches: a tensor, an op, or any structure of them that `Session.run` takes.
        receive: called with the fetched values right after the run; None for ops run for their effect.
        every: at which steps, as an `Every` or a string such as "100 steps"; the loop does nothing for it at
            the others.
        options: options of the session call, such as tracing; `receive` then takes a pair of the values and
            the call's `tf.RunMetadata`. Options of several fetches are merged.
    """

    fetches: Any
    receive: Callable[[Any], None] | None = None
    every: Every = attrs.field(default=EVERY_STEP, converter=as_every)
    options: tf.RunOptions | None = None
