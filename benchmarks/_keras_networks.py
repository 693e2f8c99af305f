"""ResNet-18 and two LSTMs in Keras 3, in all ways that may make `fit` fast."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import _rounds
import numpy as np
from _screen import on_screen

EPOCHS = 3
STEPS = {"resnet18": _rounds.shorter(10, 1), "lstm": _rounds.shorter(100, 2)}
BATCH = {"resnet18": 16, "lstm": 32}


class Tuning(NamedTuple):
    """How `fit` is used.

    Attributes:
        single_thread: one thread within an op, which a trainer takes on few cores, rather than all.
        jit_compile: XLA.
        steps_per_execution: steps in one call of the traced function, as a share of the epoch's.
    """

    single_thread: bool
    jit_compile: bool
    whole_epochs: bool

    def __str__(self) -> str:
        return ", ".join(
            (
                "1 thread an op" if self.single_thread else "all threads",
                "XLA" if self.jit_compile else "no XLA",
                "an epoch a call" if self.whole_epochs else "a step a call",
            )
        )


WAYS = [Tuning(*choice) for choice in itertools.product((True, False), (False, True), (True, False))][
    : _rounds.shorter(8)
]


def arrays(name: str) -> list[np.ndarray]:
    """The inputs and labels of an epoch."""
    draw = np.random.default_rng(0)
    count = STEPS[name] * BATCH[name]
    if name == "lstm":
        from _kits import TIMES, VOCABULARY

        symbols = draw.integers(0, VOCABULARY, (count, TIMES + 1)).astype(np.int32)
        return [symbols[:, :-1].copy(), symbols[:, 1:].copy()]
    images = draw.normal(size=(count, 32, 32, 3)).astype(np.float32)
    return [images, draw.integers(0, 10, count).astype(np.int32)]


def subject(name: str, tuning: Tuning) -> Callable[[], Callable[[], float]]:
    """The preparation of a training in a separate process."""
    return functools.partial(fit, name, tuning)


def fit(name: str, tuning: Tuning) -> Callable[[], float]:
    """Prepares the training; returns a function that measures steps per second."""
    if tuning.single_thread:
        os.environ["TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE"] = "false"
    import keras
    import tensorflow as tf
    from _keras_epochs import epoch_times

    if tuning.single_thread:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    model = {"resnet18": resnet18, "lstm": lstm}[name]()
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=STEPS[name] if tuning.whole_epochs else 1,
        jit_compile=tuning.jit_compile,
    )
    x, y = arrays(name)

    def run() -> float:
        watch, seconds = epoch_times()
        with on_screen():
            model.fit(x, y, BATCH[name], epochs=EPOCHS, callbacks=[watch], verbose=0, shuffle=False)
        return STEPS[name] * len(seconds[1:]) / sum(seconds[1:])

    return run


def resnet18() -> Any:
    """The network of `_kits.resnet18`."""
    import keras
    from keras import layers

    def conv(x: Any, filters: int, size: int, stride: int = 1, relu: bool = True) -> Any:
        x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return layers.ReLU()(x) if relu else x

    image = keras.Input((32, 32, 3))
    x = conv(image, 64, 3)
    for group in range(4):
        filters = 64 * 2**group
        for index in range(2):
            stride = 2 if group and not index else 1
            y = conv(conv(x, filters, 3, stride), filters, 3, relu=False)
            x = conv(x, filters, 1, stride, relu=False) if stride > 1 else x
            x = layers.ReLU()(layers.add([x, y]))
    logits = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, logits)


def lstm() -> Any:
    """The network of `_kits.two_lstms`."""
    import keras
    from _kits import UNITS, VOCABULARY
    from keras import layers

    return keras.Sequential(
        [
            layers.Embedding(VOCABULARY, UNITS),
            layers.LSTM(UNITS, return_sequences=True),
            layers.LSTM(UNITS, return_sequences=True),
            layers.Dense(VOCABULARY),
        ]
    )
