"""The declaration of values to fetch along with the training step."""

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
    """Declares values to fetch together with the training step, and the function that receives them.

    Args:
        fetches: a tensor, an op, or any structure of them that `Session.run` takes.
        receive: called with the fetched values right after the run; None for ops that run for their side
            effect.
        every: the period, as an `Every` or a string such as "100 steps"; other steps have no cost.
        options: options of the session call, such as tracing; `receive` then takes a pair of the values and
            the call's `tf.RunMetadata`. Options of several fetches are merged.
    """

    fetches: Any
    receive: Callable[[Any], None] | None = None
    every: Every = attrs.field(default=EVERY_STEP, converter=as_every)
    options: tf.RunOptions | None = None
