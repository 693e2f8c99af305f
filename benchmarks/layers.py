"""The cost of layers, compared with the same networks written by hand and with Keras 3.

    python benchmarks/layers.py [--smoke]

Forward and backward of a VGG-like network, ResNet-18 and two LSTMs, each from layers and by hand in sessions
of one process that take turns. Then the trainings of ResNet-18 and of the LSTMs beside `fit` of Keras in the
fastest of the ways that are tried (threads, XLA, steps in a call). Then the graph of ResNet-50.
"""

from __future__ import annotations

import functools
import gc
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import _keras_networks
import _kits
import _networks
import _processes
import _rounds
import _verdicts
import numpy as np
from _keras_networks import BATCH, EPOCHS, STEPS
from _screen import on_screen

ROUNDS, MORE_ROUNDS = _rounds.shorter(5), _rounds.shorter(10)
KITS = {"layers": _kits.Layers, "by hand": _kits.ByHand}
SIZES = {"batch of 32": 32, "batch of any size": None}
# A figure is of about a second. The smallest network will do to see that all runs.
NETWORKS = {"lstm": (_kits.two_lstms, 100), "vgg": (_kits.vgg, 5), "resnet18": (_kits.resnet18, 5)}
NETWORKS = dict(list(NETWORKS.items())[: _rounds.shorter(3)])
TIMES_KERAS = {"lstm": 1.5, "resnet18": 1.1}


def cost_of(network: Callable[..., Any], kit: Any, x: Any, label: Any) -> Any:
    """The mean cross entropy of a network."""
    import tensorflow.compat.v1 as tf

    return _networks.mean_loss(network(kit, x), tf.reshape(label, [-1]))


def training_step(network: Callable[..., Any], kit: Any, arrays: list[np.ndarray]) -> Callable[[], object]:
    """A session call of a training step, on a batch that is in the graph already."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import TowerContext
    from towerpack_trainers import default_session_config

    with tf.Graph().as_default(), tf.variable_scope("", use_resource=True):
        inputs = [tf.placeholder_with_default(tf.constant(array), array.shape) for array in arrays]
        with TowerContext("", is_training=True):
            cost = cost_of(network, kit, *inputs)
        gating = tf.train.Optimizer.GATE_GRAPH
        step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(cost, gate_gradients=gating)
        step = tf.group(step, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        session = tf.Session(config=default_session_config())
        session.run(tf.global_variables_initializer())
        return session.make_callable(step)


def sessions(name: str) -> dict[str, Callable[[], float]]:
    """Milliseconds of a step of each kit, warmed up."""
    network, count = NETWORKS[name]
    count = _rounds.shorter(count, 1)
    kind = "lstm" if name == "lstm" else "resnet18"
    arrays = [array[: BATCH[kind]] for array in _keras_networks.arrays(kind)]

    def timed(step: Callable[[], object]) -> float:
        step()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        return 1e3 * (time.perf_counter() - begin) / count

    steps = {key: training_step(network, kit, arrays) for key, kit in KITS.items()}
    return {f"{name}, {key}": functools.partial(timed, step) for key, step in steps.items()}


def trainer(name: str, all_threads: bool = False) -> Callable[[], float]:
    """Steps per second of `SimpleTrainer` on the arrays that Keras gets.

    Args:
        name: the network.
        all_threads: give each op all threads, as TensorFlow does by itself, and not one as trainers do on up
            to four cores.
    """
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochTimes

    from towerpack_dataflow import BatchData, DataFromArrays
    from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

    network = {"resnet18": _kits.resnet18, "lstm": _kits.two_lstms}[name]
    data = _keras_networks.arrays(name)

    class Model(ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([None, *array.shape[1:]], array.dtype, key)
                for key, array in zip(("x", "label"), data)
            ]

        def build_graph(self, x, label):
            return cost_of(network, _kits.Layers, x, label)

        def optimizer(self):
            return tf.train.MomentumOptimizer(0.01, 0.9)

    def run() -> float:
        watch = EpochTimes()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=Model(),
                dataflow=BatchData(DataFromArrays(data, shuffle=False), BATCH[name]),
                callbacks=[watch],
                max_epoch=EPOCHS,
                log_dir=log_dir,
                session_config=tf.ConfigProto(allow_soft_placement=True) if all_threads else None,
            )
            SimpleTrainer(config).train()
        return STEPS[name] * len(watch.seconds[1:]) / sum(watch.seconds[1:])

    return run


def construction() -> dict[str, Callable[[], float]]:
    """Milliseconds of building ResNet-50 for training, without gradients, and the number of its ops.

    Where the batch size is not known, layers add what a batch without examples needs.
    """

    def build(kit: Any, batch: int | None) -> tuple[float, int]:
        import tensorflow.compat.v1 as tf

        from towerpack_layers import TowerContext

        gc.collect()
        with tf.Graph().as_default() as graph, tf.variable_scope("", use_resource=True):
            image = tf.placeholder(tf.float32, [batch, 224, 224, 3])
            begin = time.perf_counter()
            with TowerContext("", is_training=True):
                _kits.resnet50(kit, image)
            return 1e3 * (time.perf_counter() - begin), len(graph.get_operations())

    made: dict[str, Callable[[], float]] = {}
    for size, batch in SIZES.items():
        for key, kit in KITS.items():
            made[f"{key}, {size}: ms"] = lambda kit=kit, batch=batch: build(kit, batch)[0]
            made[f"{key}, {size}: ops"] = lambda kit=kit, batch=batch: build(kit, batch)[1]
    return made


def fastest_way(name: str) -> tuple[str, Callable[[], Callable[[], float]]]:
    """The fastest option of Keras, each measured once and separately after a warm-up training."""
    tried: dict[_keras_networks.Tuning, float] = {}
    for way in _keras_networks.WAYS:
        with _processes.running({"keras": _keras_networks.subject(name, way)}) as functions:
            functions["keras"]()
            tried[way] = functions["keras"]()
        print(f"  Keras fit, {name}, {way}: {tried[way]:.2f} steps/s", flush=True)
    best = max(tried, key=tried.__getitem__)
    return f"Keras fit, {best}", _keras_networks.subject(name, best)


def by_hand(verdicts: _verdicts.Verdicts) -> None:
    """Layers compared with the same code by hand."""
    for name in NETWORKS:
        with _processes.running({name: functools.partial(sessions, name)}) as functions:
            _rounds.warm_up(functions)
            figures = _rounds.measure(functions, MORE_ROUNDS)
        print(f"{name}: milliseconds of a training step")
        for subject, values in figures.items():
            print(f"  {subject:<40} {_rounds.summary(values, '.2f')}")
        ratios = _rounds.ratios(figures[f"{name}, by hand"], figures[f"{name}, layers"])
        verdicts.at_least(f"{name}: speed, layers / by hand", ratios, 0.98)


def beside_keras(verdicts: _verdicts.Verdicts) -> None:
    """Trainings compared with `fit`."""
    for name in filter(NETWORKS.__contains__, TIMES_KERAS):
        print(f"{name}: steps per second of whole trainings, batch size {BATCH[name]}")
        way, theirs = fastest_way(name)
        ours = {
            "SimpleTrainer": functools.partial(trainer, name),
            "SimpleTrainer, all threads": functools.partial(trainer, name, True),
        }
        with _processes.running({**ours, way: theirs}) as functions:
            _rounds.warm_up(functions)
            figures = _rounds.measure(functions, ROUNDS)
        for subject, values in figures.items():
            print(f"  {subject:<60} {_rounds.summary(values, '.2f')}")
        best = max(ours, key=lambda subject: median(figures[subject]))
        ratios = _rounds.ratios(figures[best], figures[way])
        verdicts.at_least(f"{name}: {best} / the fastest way of Keras", ratios, TIMES_KERAS[name])


def graphs(verdicts: _verdicts.Verdicts) -> None:
    """The graph of ResNet-50."""
    with _processes.running({"construction": construction}) as functions:
        _rounds.warm_up(functions)
        figures = _rounds.measure(functions, MORE_ROUNDS)
    print("ResNet-50: the training graph without gradients")
    for subject, values in figures.items():
        print(f"  {subject:<40} {_rounds.summary(values, '.0f')}")
    for what, limit in {"ms": 1.3, "ops": 1.0}.items():
        known, unknown = (
            _rounds.ratios(figures[f"layers, {size}: {what}"], figures[f"by hand, {size}: {what}"])
            for size in SIZES
        )
        verdicts.at_most(f"construction, {what}: layers / by hand", known, limit)
        verdicts.untargeted(f"the same where the batch size is not known, {what}", unknown)


def main() -> None:
    """Measures and judges."""
    print(_rounds.heading("tensorflow", "keras", "numpy"))
    verdicts = _verdicts.Verdicts()
    by_hand(verdicts)
    graphs(verdicts)
    beside_keras(verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
