"""How long the epochs of Keras 3 take; imports Keras, which a process of TensorFlow 1 style must not."""

from __future__ import annotations

import time

import keras


def epoch_times() -> tuple[keras.callbacks.Callback, list[float]]:
    """Returns a callback, and the list to which it adds each epoch's seconds."""
    begins: list[float] = []
    seconds: list[float] = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begins.append(time.perf_counter()),
        on_epoch_end=lambda epoch, logs: seconds.append(time.perf_counter() - begins[-1]),
    )
    return callback, seconds
