"""Requests of many threads, batched by `MultiThreadAsyncPredictor`, compared with one calling thread.

    python benchmarks/predict.py [--smoke]

One thread calls an `OfflinePredictor` with batches of one. 64 clients, each a thread, ask an asynchronous
predictor over the same session for one example after the other: by calls, which wait, and by futures. All
take turns, in one process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import _lenet
import _rounds
import _verdicts
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_trainers import MultiThreadAsyncPredictor, OfflinePredictor, PredictConfig

ROUNDS, CLIENTS = _rounds.shorter(9), 64
ONE, CALLS, FUTURES, THREADS = (
    "one thread, OfflinePredictor",
    f"{CLIENTS} clients, calls",
    f"{CLIENTS} clients, futures",
    f"{CLIENTS} threads, OfflinePredictor",
)


def tiny(image: Any) -> Any:
    """A layer of ten units, which takes less time than the call of a session."""
    weights = tf.get_variable("W", [64, 10])
    return tf.matmul(image, weights, name="probabilities")


def configs() -> dict[str, PredictConfig]:
    """The networks, with the values that their variables begin with."""
    names = {"input_names": ["image"], "output_names": ["probabilities"]}
    signature = [tf.TensorSpec([None, 64], tf.float32, "image")]
    return {
        "LeNet": PredictConfig(model=_lenet.lenet(), **names),
        "tiny": PredictConfig(tower_func=tiny, input_signature=signature, **names),
    }


def rate(ask: Callable[[], object], clients: int, requests: int) -> float:
    """Requests per second of some threads, each of which makes its next one when it has the answer."""

    def client() -> None:
        begin.wait()
        for _ in range(requests):
            ask()

    begin = threading.Barrier(clients + 1)
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return clients * requests / (time.perf_counter() - start)


def compare(name: str, config: PredictConfig, verdicts: _verdicts.Verdicts) -> None:
    """Measures one network, and judges the calls of LeNet's clients."""
    with OfflinePredictor(config) as offline, MultiThreadAsyncPredictor(offline) as predict:
        shape = offline.inputs[0].shape.as_list()[1:]
        image = np.random.default_rng(0).random(shape, np.float32)
        each, alone = _rounds.shorter(300, 3), _rounds.shorter(6000, 50)
        subjects = {
            ONE: lambda: rate(lambda: offline(image[None]), 1, alone),
            CALLS: lambda: rate(lambda: predict(image), CLIENTS, each),
            FUTURES: lambda: rate(lambda: predict.put_task([image]).result(), CLIENTS, each),
            THREADS: lambda: rate(lambda: offline(image[None]), CLIENTS, each),
        }
        _rounds.measure(subjects, 1)
        figures = _rounds.measure(subjects, ROUNDS)
    print(f"{name}: requests per second")
    for subject, values in figures.items():
        print(f"  {subject:<34} {_rounds.summary(values, ',.0f')}")
    for subject in (CALLS, FUTURES):
        values, what = _rounds.ratios(figures[subject], figures[ONE]), f"{name}: {subject} / {ONE}"
        if name == "LeNet" and subject == CALLS:
            verdicts.at_least(what, values, 5)
        else:
            verdicts.untargeted(what, values)


def main() -> None:
    """Measures, prints and judges."""
    print(_rounds.heading("tensorflow", "numpy"))
    print(f"{ROUNDS} interleaved rounds, medians (range)")
    verdicts = _verdicts.Verdicts()
    for name, config in configs().items():
        compare(name, config, verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
