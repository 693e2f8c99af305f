"""The LeNet of benchmarks/digits.py in Keras 3, as installed and tuned."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import _lenet
import _rounds
import numpy as np
from _screen import on_screen


class Tuning(NamedTuple):
    """How `fit` is used.

    Attributes:
        steps_per_execution: steps in one call of the traced function.
        jit_compile: XLA: "auto" as installed, which compiles where Keras thinks that it can.
        our_options: threads and oneDNN as a trainer sets them, rather than TensorFlow's defaults.
        dataset: a cached and prefetched `tf.data.Dataset` rather than arrays.
        verbose: the progress bar, which the default draws.
    """

    steps_per_execution: int = 1
    jit_compile: str | bool = "auto"
    our_options: bool = True
    dataset: bool = False
    verbose: str | int = 0


AS_INSTALLED = Tuning(our_options=False, verbose="auto")
TUNED = {
    f"Keras fit, {'XLA' if jit else 'no XLA'}, {steps} step{'s' if steps > 1 else ''} a call, "
    f"{'tf.data' if dataset else 'arrays'}": Tuning(steps, jit, dataset=dataset)
    for jit in (False, True)
    for steps in (1, 100)
    for dataset in (False, True)
}


def subjects() -> dict[str, Callable[[], Callable[[], _lenet.Measured]]]:
    """`fit` as installed, and with each option that may make it faster; each needs a separate process."""
    ways = {
        "Keras fit, as installed": AS_INSTALLED,
        **dict(list(TUNED.items())[: _rounds.shorter(len(TUNED))]),
    }
    return {name: functools.partial(fit, tuning) for name, tuning in ways.items()}


def fit(tuning: Tuning) -> Callable[[], _lenet.Measured]:
    """Prepares the training; returns a function that trains once."""
    if tuning.our_options:
        os.environ["TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE"] = "false"
    import tensorflow as tf
    from _keras_epochs import epoch_times

    if tuning.our_options and (os.cpu_count() or 1) <= 4:
        tf.config.threading.set_intra_op_parallelism_threads(1)

    data = samples(tuning.dataset)

    def run() -> _lenet.Measured:
        (watch, seconds), (meter, processor) = epoch_times(), epoch_times(time.process_time)
        with on_screen():
            begin = time.perf_counter()
            model = network(tuning)
            fitted = {"epochs": _lenet.EPOCHS, "steps_per_epoch": _lenet.STEPS, "callbacks": [watch, meter]}
            model.fit(**data, **fitted, verbose=tuning.verbose)
            whole = time.perf_counter() - begin
        return _lenet.timed_epochs(whole, seconds, processor)

    return run


def network(tuning: Tuning) -> Any:
    """The network of examples/digits_lenet.py, compiled."""
    import keras
    from keras import layers

    decay = keras.regularizers.L2(5e-6)  # Keras does not halve the sum of squares
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(512, activation="relu", kernel_regularizer=decay),
            layers.Dropout(0.5),
            layers.Dense(10, kernel_regularizer=decay),
        ]
    )
    assert model.count_params() == _lenet.WEIGHTS, model.count_params()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=tuning.steps_per_execution,
        jit_compile=tuning.jit_compile,
    )
    return model


def samples(dataset: bool) -> dict[str, Any]:
    """Arguments of `fit`: an epoch of shuffled digits."""
    images, labels = _lenet.examples()
    chosen = np.arange(_lenet.BATCH * _lenet.STEPS) % len(images)
    images, labels = images[chosen, :, :, None], labels[chosen]
    if not dataset:
        return {"x": images, "y": labels, "batch_size": _lenet.BATCH}
    import tensorflow as tf

    flow = tf.data.Dataset.from_tensor_slices((images, labels)).cache().shuffle(len(images))
    return {"x": flow.batch(_lenet.BATCH, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)}
