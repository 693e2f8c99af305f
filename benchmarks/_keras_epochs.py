"""Durations of Keras 3 epochs; imports Keras, which is not possible in a TensorFlow 1 process."""

from __future__ import annotations

import time
from collections.abc import Callable

import keras


def epoch_times(
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[keras.callbacks.Callback, list[float]]:
    """Returns a callback, and the list to which it adds each epoch's seconds of a clock."""
    begins: list[float] = []
    seconds: list[float] = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begins.append(clock()),
        on_epoch_end=lambda epoch, logs: seconds.append(clock() - begins[-1]),
    )
    return callback, seconds
