"""What a training loop adds to the bare session call: callbacks, input, epochs; ours beside its peers'.

    python benchmarks/loop.py

Ours, TensorFlow's own loops and the bare call share one process and one choice of session options (the
trainer's); upstream Tensorpack, which needs Keras 2, and eager TensorFlow have processes of their own with as
many threads. All take turns. First epochs do not count: in them graphs are pruned and functions traced. For
LeNet, whose ratios are close to their limits, all processes are started anew for each round.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import _processes  # noqa: PLC2701  # underscored, so that nox does not run it as a benchmark
import _rounds  # noqa: PLC2701
import digits
import numpy as np

ROUNDS, EPOCHS = 5, 3
MLP_STEPS, MLP_BATCH = 1000, 32
LENET = "LeNet, "
LARGE = (128, 64, 64, 3)  # 6.3 MB of float32
# Long enough for a worker to fill the queue again.
PAUSE = 0.005

Times = list[float]


def per_step(seconds: Times, steps: int) -> float:
    """Microseconds a step, without the first epoch."""
    return 1e6 * median(seconds[1:]) / steps


# ---- the tiny MLP: 64-32-10


def mlp_inputs(tf):
    """A batch that is in the graph already; not constants, which TensorFlow would compute with beforehand."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(MLP_BATCH, 64)).astype(np.float32)
    y = draw.integers(0, 10, MLP_BATCH).astype(np.int32)
    return [tf.placeholder_with_default(tf.constant(array), array.shape) for array in (x, y)]


def mlp_cost(tf, x, y):
    """The cost of the network."""
    draw = tf.random_normal_initializer(stddev=0.1, seed=1)
    hidden = tf.nn.relu(x @ tf.get_variable("w0", [64, 32], initializer=draw) + tf.get_variable("b0", [32]))
    logits = hidden @ tf.get_variable("w1", [32, 10], initializer=draw) + tf.get_variable("b1", [10])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tf.reduce_mean(losses, name="cost")


def timed(step: Callable[[], object]) -> Callable[[], float]:
    """Measures a step that is called directly."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(MLP_STEPS):
            step()
        return 1e6 * (time.perf_counter() - begin) / MLP_STEPS

    run()
    return run


def session_loops() -> dict[str, Callable[[], float]]:
    """TensorFlow's own ways to run a graph."""
    import tensorflow.compat.v1 as tf

    from towerpack_trainers import default_session_config

    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("", use_resource=True):
        inputs = mlp_inputs(tf)
        # Gated as trainers do it: their loop is measured here, not their graph.
        gating = tf.train.Optimizer.GATE_GRAPH
        train_op = tf.train.AdamOptimizer(1e-3).minimize(mlp_cost(tf, *inputs), gate_gradients=gating)
        tf.train.get_or_create_global_step()
        init = tf.global_variables_initializer()
    config = default_session_config()
    session = tf.Session(graph=graph, config=config)
    session.run(init)
    feed = dict(zip(inputs, session.run(inputs)))

    def monitored(hooks: int) -> Callable[[], float]:
        with graph.as_default():
            looped = tf.train.MonitoredTrainingSession(
                hooks=[tf.train.SessionRunHook() for _ in range(hooks)],
                config=config,
                log_step_count_steps=None,
            )
        return timed(lambda: looped.run(train_op))

    return {
        "bare make_callable": timed(session.make_callable(train_op)),
        "Session.run": timed(lambda: session.run(train_op)),
        "Session.run with feed_dict": timed(lambda: session.run(train_op, feed)),
        "MonitoredSession, 0 hooks": monitored(0),
        "MonitoredSession, 10 hooks": monitored(10),
    }


def our_loops() -> dict[str, Callable[[], float]]:
    """`SimpleTrainer` with ever more to do besides the steps."""
    import tensorflow.compat.v1 as tf

    from towerpack_callbacks import Callback, StepFetch, add_moving_summary
    from towerpack_inputsource import TensorInput
    from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

    class MLP(ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([MLP_BATCH, 64], tf.float32, "x"),
                tf.TensorSpec([MLP_BATCH], tf.int32, "y"),
            ]

        def build_graph(self, x, y):
            cost = mlp_cost(tf, x, y)
            add_moving_summary(cost)
            return cost

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    class Stopwatch(Callback):
        def __init__(self) -> None:
            self.seconds: Times = []

        def _before_epoch(self) -> None:
            self._start = time.perf_counter()

        def _after_epoch(self) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    class Idle(Callback):
        def _trigger_epoch(self) -> None:
            self.triggered = True

    class FetchCost(Callback):
        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["cost"])[0], self.receive)]

        def receive(self, cost) -> None:
            self.cost = cost

    def training(callbacks=(), steps=MLP_STEPS, epochs=EPOCHS, **options) -> Times:
        watch = Stopwatch()
        with tempfile.TemporaryDirectory() as log_dir, digits.on_screen():
            config = TrainConfig(
                model=MLP(),
                data=TensorInput(lambda: mlp_inputs(tf)),
                callbacks=[watch, *callbacks],
                steps_per_epoch=steps,
                max_epoch=epochs,
                log_dir=log_dir,
                **options,
            )
            SimpleTrainer(config).train()
        return watch.seconds

    nothing = {"extra_callbacks": [], "monitors": []}

    def looped(make_callbacks=list, **options) -> Callable[[], float]:
        return lambda: per_step(training(make_callbacks(), **options), MLP_STEPS)

    def epoch() -> float:
        """Microseconds of a whole epoch of one step, default callbacks and monitors."""
        begin = time.perf_counter()
        training(steps=1, epochs=50)
        short = time.perf_counter() - begin
        begin = time.perf_counter()
        training(steps=1, epochs=250)
        return 1e6 * (time.perf_counter() - begin - short) / 200

    return {
        "trainer, no callbacks": looped(**nothing),
        "trainer, ten idle callbacks": looped(lambda: [Idle() for _ in range(10)], **nothing),
        "trainer, default callbacks and monitors": looped(),
        "trainer, ten callbacks that fetch the loss": looped(
            lambda: [FetchCost() for _ in range(10)], **nothing
        ),
        "trainer, default callbacks, steps_per_run=1": looped(steps_per_run=1),
        "trainer, steps_per_run=100": looped(steps_per_run=100, **nothing),
        "trainer, one epoch of one step": epoch,
    }


def eager_loops() -> dict[str, Callable[[], float]]:
    """The same network in `tf.function` and in Keras 3."""
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    draw = np.random.default_rng(0)
    xs = draw.normal(size=(MLP_STEPS * MLP_BATCH, 64)).astype(np.float32)
    ys = draw.integers(0, 10, len(xs)).astype(np.int32)
    x, y = tf.constant(xs[:MLP_BATCH]), tf.constant(ys[:MLP_BATCH])

    def network():
        return keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)])

    model, optimizer = network(), keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            cost = loss(y, model(x, training=True))
        gradients = tape.gradient(cost, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    class Stopwatch(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.seconds: Times = []

        def on_epoch_begin(self, epoch, logs=None) -> None:
            self._start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    def fit(steps_per_execution: int) -> Callable[[], float]:
        fitted = network()
        fitted.compile("adam", loss, steps_per_execution=steps_per_execution)

        def run() -> float:
            watch = Stopwatch()
            fitted.fit(xs, ys, MLP_BATCH, epochs=EPOCHS, callbacks=[watch], verbose=0, shuffle=False)
            return per_step(watch.seconds, MLP_STEPS)

        return run

    return {
        "tf.function": timed(step),
        "Keras fit": fit(1),
        "Keras fit, steps_per_execution=100": fit(100),
    }


# ---- LeNet on the digits, through a flow


def our_lenet(steps_per_run: int | None) -> Callable[[], float]:
    """What a user writes: a flow, default callbacks, default monitors. Steps per second."""
    run = digits.simple_trainer(steps_per_run)
    return lambda: run()[1]


def bare_lenet() -> Callable[[], float]:
    """The least a loop can do, on a batch that is there already."""
    run = digits.bare_as_trainer()
    return lambda: run()[1]


def keras_lenet(steps_per_execution: int) -> Callable[[], float]:
    """`fit` on the same network."""
    run = digits.keras_fit(steps_per_execution=steps_per_execution)
    return lambda: run()[1]


def upstream_lenet() -> Callable[[], float]:
    """Tensorpack 0.11: the same network, its own flows, `QueueInput` and default callbacks."""
    tf, tensorpack = upstream()
    from tensorpack.dataflow import BatchData, DataFromList

    from towerpack_dataflow.datasets import Digits

    batches = BatchData(DataFromList(list(Digits("train"))), digits.BATCH)

    class LeNet(tensorpack.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([None, 8, 8], tf.float32, "image"),
                tf.TensorSpec([None], tf.int32, "label"),
            ]

        def build_graph(self, image, label):
            from tensorpack import Conv2D, Dropout, FullyConnected, MaxPooling, argscope, regularize_cost

            with argscope(Conv2D, filters=32, kernel_size=3, activation=tf.nn.relu):
                net = MaxPooling("pool0", Conv2D("conv0", tf.expand_dims(image, 3)), 2)
                net = MaxPooling("pool1", Conv2D("conv2", Conv2D("conv1", net)), 2)
            net = Dropout("dropout", FullyConnected("fc0", net, 512, activation=tf.nn.relu), rate=0.5)
            logits = FullyConnected("fc1", net, 10)
            correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
            accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            decay = regularize_cost("fc.*/W", tf.keras.regularizers.l2(5e-6))
            cost = tf.add(tf.reduce_mean(losses), decay, name="cost")
            tensorpack.summary.add_moving_summary(cost, accuracy)
            tensorpack.summary.add_param_summary((".*/W", ["histogram", "rms"]))
            return cost

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    def run() -> float:
        data = tensorpack.QueueInput(batches)
        return 1e6 / upstream_step(tf, tensorpack, LeNet(), data, digits.STEPS)

    return run


# ---- a large batch from a worker process into a step that only reads one of its numbers


def large_batch() -> np.ndarray:
    """6.3 MB of float32."""
    return np.random.default_rng(0).normal(size=LARGE).astype(np.float32)


def waiting_between(step: Callable[[], object], steps: int = 60) -> float:
    """Milliseconds of a step that finds its data there: a pause before it lets the loader catch up."""
    seconds = []
    for _ in range(steps):
        time.sleep(PAUSE)
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return 1e3 * median(seconds)


def our_large_batches() -> dict[str, Callable[[], float]]:
    """A resident variable, and `QueueInput` over a worker process."""
    import tensorflow.compat.v1 as tf

    from towerpack_dataflow import DataFromList, MultiProcessRunner
    from towerpack_inputsource import QueueInput
    from towerpack_trainers import default_session_config

    config = default_session_config()

    def looped(read: Callable[[], object], hooks: Callable[[], list]) -> Callable[[], float]:
        with tf.Graph().as_default():
            out = read()[0, 0, 0, 0]
            tf.train.get_or_create_global_step()
            session = tf.train.MonitoredTrainingSession(
                hooks=hooks(), config=config, log_step_count_steps=None
            )
        # The session itself: a MonitoredSession would add its own time to both.
        step = session.run_step_fn(lambda step_context: step_context.session).make_callable(out)
        return lambda: waiting_between(step)

    source = QueueInput(MultiProcessRunner(DataFromList([[large_batch()]] * 8), 1), capacity=8)

    def from_queue() -> object:
        source.setup([tf.TensorSpec(LARGE, tf.float32, "x")])
        return source.get_input_tensors()[0]

    def resident() -> object:
        return tf.get_variable("x", initializer=large_batch(), use_resource=True)

    return {
        "resident variable": looped(resident, list),
        "QueueInput over a worker": looped(from_queue, source.hooks),
    }


def upstream_large_batches() -> Callable[[], float]:
    """Upstream's: a worker that sends by ZMQ, and its `QueueInput`."""
    tf, tensorpack = upstream()
    from tensorpack.dataflow import DataFromList, MultiProcessRunnerZMQ, RepeatedData

    from towerpack_trainers import default_session_config

    flow = RepeatedData(DataFromList([[large_batch()]] * 8, shuffle=False), -1)
    source = tensorpack.QueueInput(
        MultiProcessRunnerZMQ(flow, 1, hwm=4), queue=tf.FIFOQueue(8, [tf.float32], [LARGE])
    )
    source.setup([tf.TensorSpec(LARGE, tf.float32, "x")])
    out = source.get_input_tensors()[0][0, 0, 0, 0]
    source._inf_ds.reset_state()
    session = tf.Session(config=default_session_config())
    with session.as_default():
        source.thread.start()
    step = session.make_callable(out)
    return lambda: waiting_between(step)


# ---- upstream


def upstream():
    """Tensorpack 0.11 and its TensorFlow: no eager execution, Keras 2."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    import tensorpack

    tensorpack.logger._logger.setLevel("ERROR")
    return tf, tensorpack


def upstream_step(tf, tensorpack, model, data, steps: int) -> float:
    """Microseconds of a step of its SimpleTrainer, with its default callbacks and our session options."""
    from towerpack_trainers import default_session_config

    class Stopwatch(tensorpack.Callback):
        def __init__(self) -> None:
            self.seconds: Times = []

        def _before_epoch(self) -> None:
            self._start = time.perf_counter()

        def _after_epoch(self) -> None:
            self.seconds.append(time.perf_counter() - self._start)

    watch = Stopwatch()
    tf.reset_default_graph()
    with tempfile.TemporaryDirectory() as log_dir, digits.on_screen():
        tensorpack.logger.set_logger_dir(log_dir, "d")
        config = tensorpack.TrainConfig(
            model=model,
            data=data,
            callbacks=[watch],
            steps_per_epoch=steps,
            max_epoch=EPOCHS,
            session_config=default_session_config(),
        )
        tensorpack.launch_train_with_config(config, tensorpack.SimpleTrainer())
    return per_step(watch.seconds, steps)


def upstream_mlp() -> Callable[[], float]:
    """Tensorpack 0.11 on the tiny MLP, its data in the graph."""
    tf, tensorpack = upstream()

    class MLP(tensorpack.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([MLP_BATCH, 64], tf.float32, "x"),
                tf.TensorSpec([MLP_BATCH], tf.int32, "y"),
            ]

        def build_graph(self, x, y):
            cost = mlp_cost(tf, x, y)
            tensorpack.summary.add_moving_summary(cost)
            return cost

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    def run() -> float:
        return upstream_step(
            tf, tensorpack, MLP(), tensorpack.input_source.TensorInput(lambda: mlp_inputs(tf)), MLP_STEPS
        )

    return run


# ---- the report

OF_UPSTREAM = {"TF_USE_LEGACY_KERAS": "1"}


@contextlib.contextmanager
def both(ours: dict[str, _processes.Maker], theirs: dict[str, _processes.Maker]) -> Iterator[dict]:
    """The functions of our processes and of upstream's."""
    with _processes.running(ours) as mine, _processes.running(theirs, OF_UPSTREAM) as other:
        yield {**mine, **other}


def measured(ours: dict[str, _processes.Maker], theirs: dict[str, _processes.Maker]) -> _rounds.Figures:
    """All figures of one scenario, in turn."""
    with both(ours, theirs) as subjects:
        for run in subjects.values():
            run()  # warm-up
        return _rounds.measure(subjects, ROUNDS)


def table(title: str, figures: _rounds.Figures, form: str) -> None:
    """Prints one scenario."""
    print(f"\n{title}")
    for name, values in figures.items():
        print(f"  {name:<46} {_rounds.summary(values, form)}")


def verdict(what: str, values: Times, form: str, target: str) -> None:
    """Prints a figure that has a target."""
    print(f"  -> {what}: {_rounds.summary(values, form)}; wanted: {target}")


def mlp() -> None:
    """What a loop adds to a step of 0.1 ms."""
    figures = measured(
        {"sessions": session_loops, "ours": our_loops, "eager": eager_loops},
        {"Tensorpack 0.11": upstream_mlp},
    )
    epoch = figures.pop("trainer, one epoch of one step")
    table("tiny MLP (64-32-10, batch 32): microseconds a step", figures, "6.1f")
    bare = figures["bare make_callable"]
    for name, limit in [
        ("trainer, no callbacks", 15),
        ("trainer, ten idle callbacks", 20),
        ("trainer, default callbacks and monitors", 40),
        ("trainer, default callbacks, steps_per_run=1", 40),
        ("trainer, ten callbacks that fetch the loss", 60),
        ("trainer, steps_per_run=100", 0),
    ]:
        added = [one - other for one, other in zip(figures[name], bare)]
        verdict(f"{name}: added to the bare call", added, ".1f", f"at most {limit} us")
    verdict("an epoch of one step, ms", [value / 1e3 for value in epoch], ".2f", "at most 2 ms")


def lenet() -> None:
    """A whole training with real data."""
    subjects = {
        "bare make_callable, constant data": bare_lenet,
        "SimpleTrainer": functools.partial(our_lenet, None),
        "SimpleTrainer, steps_per_run=1": functools.partial(our_lenet, 1),
        "SimpleTrainer, steps_per_run=100": functools.partial(our_lenet, 100),
        "Keras fit": functools.partial(keras_lenet, 1),
        "Keras fit, steps_per_execution=100": functools.partial(keras_lenet, 100),
    }
    start = functools.partial(both, subjects, {"Tensorpack 0.11": upstream_lenet})
    figures = _rounds.measure_afresh(start, ROUNDS)
    table("LeNet on the digits, batch 32, through a flow: steps/s", figures, "6.0f")
    for ours, other, target in [
        ("SimpleTrainer", "bare make_callable, constant data", "0.93"),
        ("SimpleTrainer", "Tensorpack 0.11", "1.15"),
        ("SimpleTrainer", "Keras fit", "2.5"),
        ("SimpleTrainer", "Keras fit, steps_per_execution=100", "2"),
        ("SimpleTrainer, steps_per_run=1", "bare make_callable, constant data", "(no target)"),
        ("SimpleTrainer, steps_per_run=100", "Keras fit, steps_per_execution=100", "2"),
    ]:
        verdict(f"{ours} / {other}", _rounds.ratios(figures[ours], figures[other]), ".2f", target)


def large() -> None:
    """Input at its largest, the step at its smallest."""
    figures = measured(
        {"ours": our_large_batches}, {"Tensorpack 0.11, a worker by ZMQ": upstream_large_batches}
    )
    table("6.3 MB float32 batch from a worker into a trivial step: milliseconds a step", figures, "6.3f")
    ours = figures["QueueInput over a worker"]
    added = [one - other for one, other in zip(ours, figures["resident variable"])]
    verdict("QueueInput over a worker: added to a resident variable, ms", added, ".3f", "at most 0.10")
    theirs = figures["Tensorpack 0.11, a worker by ZMQ"]
    verdict("Tensorpack / ours", _rounds.ratios(theirs, ours), ".2f", "at least 2")


def main() -> None:
    """Measures all scenarios."""
    for scenario in (mlp, lenet, large):
        scenario()
    names = ("tensorflow", "keras", "numpy", "tensorpack", "tf_keras")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(
        f"\n{_rounds.load()}; {versions}; {Path(__file__).name}, {ROUNDS} interleaved rounds, medians (range)"
    )


if __name__ == "__main__":
    main()
