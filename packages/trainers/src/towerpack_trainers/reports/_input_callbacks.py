"""The callbacks of a run that come with its input: its hooks, and the reports on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, HookToCallback
from towerpack_inputsource import InputSource

from ._input_report import InputReport
from ._stall_warning import StallWatch

__all__ = ["input_callbacks"]


def input_callbacks(
    source: InputSource | None, inputs: Sequence[tf.Tensor], stall_seconds: float, steps_per_run: int
) -> list[Callback]:
    """Returns the callbacks that feed, watch and report on the input of a training.

    Args:
        source: the input; None without one.
        inputs: tensors that one training tower takes of the input; empty where they are not known.
        stall_seconds: see `TrainConfig`.
        steps_per_run: steps in one session call.
    """
    callbacks: list[Callback] = [] if math.isinf(stall_seconds) else [StallWatch(source, stall_seconds)]
    if source is not None:
        callbacks += map(HookToCallback, source.hooks())
        callbacks.append(InputReport(source, inputs, steps_per_run))
    return callbacks
