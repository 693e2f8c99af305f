"""Tensorpack 0.11 and its TensorFlow, in separate processes: no eager execution, Keras 2."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import time
from collections.abc import Iterator
from statistics import median

import _processes
from _screen import on_screen

PACKAGES = ("tensorflow", "keras", "numpy", "tensorpack", "tf_keras")
_ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1"}


@contextlib.contextmanager
def beside(
    ours: dict[str, _processes.Maker], theirs: dict[str, _processes.Maker]
) -> Iterator[dict[str, _processes.Function]]:
    """The functions of our processes and of upstream's, which are left out where it is not installed."""
    there = all(map(importlib.util.find_spec, ("tensorpack", "tf_keras")))
    with _processes.running(ours) as mine, _processes.running(theirs if there else {}, _ENVIRONMENT) as other:
        yield {**mine, **other}


def upstream():
    """TensorFlow as upstream needs it, and upstream."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    import tensorpack

    tensorpack.logger._logger.setLevel("ERROR")
    return tf, tensorpack


def microseconds_a_step(tf, tensorpack, model, data, steps: int, epochs: int) -> float:
    """Of its SimpleTrainer with its default callbacks and our session options; without the first epoch."""
    from towerpack_trainers import default_session_config

    class Stopwatch(tensorpack.Callback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def _before_epoch(self) -> None:
            self._start = time.perf_counter()

        def _after_epoch(self) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    watch = Stopwatch()
    tf.reset_default_graph()
    with tempfile.TemporaryDirectory() as log_dir, on_screen():
        tensorpack.logger.set_logger_dir(log_dir, "d")
        config = tensorpack.TrainConfig(
            model=model,
            data=data,
            callbacks=[watch],
            steps_per_epoch=steps,
            max_epoch=epochs,
            session_config=default_session_config(),
        )
        tensorpack.launch_train_with_config(config, tensorpack.SimpleTrainer())
    return 1e6 * median(watch.seconds[1:]) / steps
