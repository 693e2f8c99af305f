"""LeNet on the digits, in steps per second: the bare training step, SimpleTrainer, and Keras `fit`.

    python benchmarks/digits.py

All train the network of examples/digits_lenet.py (89,994 weights, dropout and weight decay included) with
Adam at a constant rate and batch size 32. Each has a process of its own, since TensorFlow chooses its threads
once per process, and they take turns. An epoch has 300 steps, and the first one of each training is not
counted.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import _processes  # noqa: PLC2701  # underscored, so that nox does not run it as a benchmark
import _rounds  # noqa: PLC2701
import numpy as np

BATCH, STEPS, EPOCHS, ROUNDS = 32, 300, 3, 5
WEIGHTS = 89_994

# Seconds of one training from its construction to its end, and steps per second within its epochs.
Measured = tuple[float, float]


class Screen(io.StringIO):
    """A terminal nobody looks at: progress bars are drawn on it as on any other."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def on_screen() -> Iterator[None]:
    """Sends what is printed to a `Screen`."""
    with contextlib.redirect_stdout(Screen()), contextlib.redirect_stderr(Screen()):
        yield


def timed_epochs(seconds: list[float]) -> float:
    """Steps per second without the first epoch, in which graphs are pruned and functions traced."""
    return STEPS * len(seconds[1:]) / sum(seconds[1:])


def first_batch() -> list[np.ndarray]:
    """Some images and labels."""
    from towerpack_dataflow import BatchData
    from towerpack_dataflow.datasets import Digits

    return next(iter(BatchData(Digits("train"), BATCH)))


def lenet():
    """The example's model."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from digits_lenet import LeNet

    return LeNet()


def bare(session_config) -> Callable[[], Measured]:
    """The least a graph-mode loop can do: one cached callable, on a batch that is there already."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import TowerContext

    model = lenet()
    with tf.Graph().as_default():
        # Not constants: TensorFlow would compute the start of the network once and for all.
        inputs = [
            tf.placeholder_with_default(tf.constant(array, spec.dtype), array.shape)
            for array, spec in zip(first_batch(), model.inputs())
        ]
        with TowerContext("", is_training=True):
            cost = model.build_graph(*inputs)
        # Gated as trainers do it, or their graph would be faster than this limit.
        train_op = tf.train.AdamOptimizer(1e-3).minimize(cost, gate_gradients=tf.train.Optimizer.GATE_GRAPH)
        weights = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
        assert weights == WEIGHTS, weights
        session = tf.Session(config=session_config)
        session.run(tf.global_variables_initializer())
        step = session.make_callable(train_op)

    def run() -> Measured:
        begin = time.perf_counter()
        seconds = []
        for _ in range(EPOCHS):
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            seconds.append(time.perf_counter() - start)
        return time.perf_counter() - begin, timed_epochs(seconds)

    return run


def bare_as_trainer() -> Callable[[], Measured]:
    """The bare step with the session options a trainer takes by default."""
    from towerpack_trainers import default_session_config

    return bare(default_session_config())


def bare_as_tensorflow() -> Callable[[], Measured]:
    """The bare step with TensorFlow's own default options."""
    return bare(None)


def simple_trainer(steps_per_run: int | None = None) -> Callable[[], Measured]:
    """What a user writes: a flow, default callbacks, default monitors."""
    import tensorflow.compat.v1 as tf

    from towerpack_callbacks import Callback
    from towerpack_dataflow import BatchData
    from towerpack_dataflow.datasets import Digits
    from towerpack_trainers import SimpleTrainer, TrainConfig

    class Stopwatch(Callback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def _before_epoch(self) -> None:
            self._start = time.perf_counter()

        def _after_epoch(self) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    flow, model = BatchData(Digits("train"), BATCH), lenet()

    def run() -> Measured:
        stopwatch = Stopwatch()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            begin = time.perf_counter()
            config = TrainConfig(
                model=model,
                optimizer=lambda: tf.train.AdamOptimizer(1e-3),
                dataflow=flow,
                callbacks=[stopwatch],
                steps_per_epoch=STEPS,
                steps_per_run=steps_per_run,
                max_epoch=EPOCHS,
                log_dir=log_dir,
            )
            SimpleTrainer(config).train()
            whole = time.perf_counter() - begin
        return whole, timed_epochs(stopwatch.seconds)

    return run


def keras_fit(verbose: str | int = "auto", steps_per_execution: int = 1) -> Callable[[], Measured]:
    """The same network, data and optimizer in Keras 3."""
    import keras
    from keras import layers

    from towerpack_dataflow.datasets import Digits

    class Stopwatch(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def on_epoch_begin(self, epoch, logs=None) -> None:
            self._start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    def network():
        decay = keras.regularizers.L2(5e-6)  # Keras does not halve the sum of squares
        return keras.Sequential(
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

    samples = list(Digits("train"))
    chosen = np.arange(BATCH * STEPS) % len(samples)
    images = np.stack([image for image, _ in samples])[chosen, :, :, None]
    labels = np.asarray([label for _, label in samples], np.int32)[chosen]

    def run() -> Measured:
        stopwatch = Stopwatch()
        with on_screen():
            begin = time.perf_counter()
            model = network()
            assert model.count_params() == WEIGHTS, model.count_params()
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(
                optimizer=keras.optimizers.Adam(1e-3),
                loss=loss,
                metrics=["accuracy"],
                steps_per_execution=steps_per_execution,
            )
            model.fit(images, labels, batch_size=BATCH, epochs=EPOCHS, callbacks=[stopwatch], verbose=verbose)
            whole = time.perf_counter() - begin
        return whole, timed_epochs(stopwatch.seconds)

    return run


def keras_fit_silent() -> Callable[[], Measured]:
    """The same without a progress bar."""
    return keras_fit(verbose=0)


SUBJECTS = {
    "bare step, trainer's session options": bare_as_trainer,
    "bare step, TensorFlow's options": bare_as_tensorflow,
    "SimpleTrainer": simple_trainer,
    "Keras fit": keras_fit,
    "Keras fit, verbose=0": keras_fit_silent,
}


def report(whole: _rounds.Figures, rates: _rounds.Figures) -> None:
    """Prints all figures and their ratios."""
    print(f"steps/s within epochs, median of {ROUNDS} interleaved rounds (range)")
    for name, values in rates.items():
        print(f"  {name:<38} {_rounds.summary(values, '6.0f')}")
    print(f"seconds for a whole training of {EPOCHS * STEPS} steps, from its construction to its end")
    for name in ("SimpleTrainer", "Keras fit", "Keras fit, verbose=0"):
        print(f"  {name:<38} {_rounds.summary(whole[name], '6.2f')}")
    print("ratios of steps/s, by round")
    for other in ("Keras fit", "Keras fit, verbose=0", "bare step, trainer's session options"):
        by_round = _rounds.ratios(rates["SimpleTrainer"], rates[other])
        print(f"  {'SimpleTrainer / ' + other:<54} {_rounds.summary(by_round, '.2f')}")
    print(f"{_rounds.load()}; TensorFlow and Keras as installed:", *versions())


def versions() -> list[str]:
    """What was measured."""
    from importlib.metadata import version

    return [f"{name} {version(name)}" for name in ("tensorflow", "keras", "numpy")]


def main() -> None:
    """Starts all processes, measures them in turn, and prints."""
    whole: _rounds.Figures = {name: [] for name in SUBJECTS}

    def rate(name: str, run: Callable[[], Measured]) -> float:
        seconds, per_second = run()
        whole[name].append(seconds)
        return per_second

    with _processes.running(SUBJECTS) as subjects:
        for run in subjects.values():
            run()  # warm-up
        turns = {name: (lambda name=name, run=run: rate(name, run)) for name, run in subjects.items()}
        report(whole, _rounds.measure(turns, ROUNDS))


if __name__ == "__main__":
    main()
