"""Several towers on one host: the cost of running and of building them.

    python benchmarks/replication.py [--smoke]

Speed: four virtual CPU devices with a batch of 32 each against one tower with a batch of 128, in images per
second, for every strategy. All are in one process with the same threads and take turns. Virtual devices share
those threads, and one tower has them all, so this shows what replication itself costs; several devices make
training faster where they are real ones.

Graph building: ResNet-50 on four devices against one, in seconds of processor time, with gradients and
updates; each builds in a graph of its own, in turn.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

import _rounds
import _verdicts
import numpy as np
import tensorflow.compat.v1 as tf
from _networks import SPECS, convnet, resnet50

from towerpack_inputsource import QueueInput
from towerpack_trainers import (
    AsyncMultiGPUBuilder,
    DataParallelBuilder,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
    default_session_config,
)

TOWERS, BATCH = _rounds.shorter(4, 2), _rounds.shorter(128, 8)
DEVICES = [f"/cpu:{index}" for index in range(TOWERS)]
STEPS, ROUNDS, BUILD_ROUNDS = _rounds.shorter(4), _rounds.shorter(9), _rounds.shorter(3)
CORES = os.cpu_count() or 1

STRATEGIES: dict[str, Callable[[], DataParallelBuilder]] = {
    "shared variables on the CPU": lambda: SyncMultiGPUParameterServerBuilder(DEVICES),
    "shared variables, spread": lambda: SyncMultiGPUParameterServerBuilder(DEVICES, DEVICES),
    "replicated, averaged on the CPU": lambda: SyncMultiGPUReplicatedBuilder(DEVICES, "cpu"),
    "replicated, hierarchical": lambda: SyncMultiGPUReplicatedBuilder(DEVICES, "hierarchical"),
    "asynchronous": lambda: AsyncMultiGPUBuilder(DEVICES),
}


def one_tower() -> DataParallelBuilder:
    """The same without any replication."""
    return SyncMultiGPUParameterServerBuilder(DEVICES[:1])


def optimizer() -> tf.train.Optimizer:
    """The one that all use."""
    return tf.train.MomentumOptimizer(0.01, 0.9)


def pictures(batch: int) -> list[list[np.ndarray]]:
    """Some batches of random pictures, labelled by the brightest of their colours and rows."""
    rng = np.random.default_rng(0)
    images = rng.random(size=(8, batch, 32, 32, 3), dtype=np.float32)
    brightness = images.mean(axis=3).reshape(8, batch, -1)[:, :, :10]
    return [[image, label] for image, label in zip(images, brightness.argmax(-1).astype(np.int32))]


class Training:
    """A training that runs some steps on request."""

    def __init__(self, make: Callable[[], DataParallelBuilder]) -> None:
        with tf.Graph().as_default():
            builder = make()
            source = QueueInput(pictures(BATCH // len(builder.devices)))
            source.setup(SPECS)
            train_op = builder.build(convnet, source.get_input_tensors, optimizer)
            step = tf.group(train_op, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            config = default_session_config(DEVICES)
            # Otherwise one tower would leave cores idle, and be easy to beat.
            config.intra_op_parallelism_threads = CORES
            creator = tf.train.ChiefSessionCreator(config=config)
            self.session = tf.train.MonitoredSession(creator, [*source.hooks(), *builder.hooks()])
        self._step = step
        for _ in range(3):
            self.session.run(step)

    def __call__(self) -> float:
        """Images per second of some steps."""
        start = time.perf_counter()
        for _ in range(STEPS):
            self.session.run(self._step)
        return STEPS * BATCH / (time.perf_counter() - start)


def build_seconds(make: Callable[[], DataParallelBuilder]) -> Callable[[], float]:
    """A function that builds ResNet-50 and returns the processor time."""

    def take() -> list[tf.Tensor]:
        return [tf.zeros([32, 224, 224, 3]), tf.zeros([32], tf.int32)]

    def build() -> float:
        gc.collect()
        with tf.Graph().as_default():
            # Processor time of this thread, which does all the work, so that other load has no effect.
            start = time.thread_time()
            make().build(resnet50, take, optimizer)
            return time.thread_time() - start

    return build


def report_speed(verdicts: _verdicts.Verdicts) -> None:
    """Prints images per second, of one tower and in relation to it."""
    print(f"CIFAR convnet, {TOWERS} towers of {BATCH // TOWERS} against one of {BATCH}: images/s")
    trainings = {"one tower": Training(one_tower), **{name: Training(m) for name, m in STRATEGIES.items()}}
    try:
        figures = _rounds.measure(trainings, ROUNDS)
    finally:
        for training in trainings.values():
            training.session.close()
    base = figures.pop("one tower")
    print(f"  one tower {_rounds.summary(base, '.0f')}")
    for name, values in figures.items():
        verdicts.at_least(f"{name} / one tower", _rounds.ratios(values, base), 0.95)


def report_building(verdicts: _verdicts.Verdicts) -> None:
    """Prints the time to build a graph, for one tower and in relation to it."""
    print(f"ResNet-50, {TOWERS} towers against one: seconds of processor time to build the graph")
    subjects = {name: build_seconds(make) for name, make in {"one tower": one_tower, **STRATEGIES}.items()}
    _rounds.warm_up({"one tower": subjects["one tower"]})
    figures = _rounds.measure(subjects, BUILD_ROUNDS)
    base = figures.pop("one tower")
    print(f"  one tower {_rounds.summary(base, '.2f')}")
    for name, values in figures.items():
        verdicts.at_most(f"{name} / one tower", _rounds.ratios(values, base), 4.2)


def main() -> None:
    """Measures, prints and judges."""
    print(_rounds.heading("tensorflow", "numpy"))
    print("medians of interleaved rounds (range)")
    verdicts = _verdicts.Verdicts()
    report_speed(verdicts)
    report_building(verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
