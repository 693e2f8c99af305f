"""The overhead of a training loop over the bare session call on a tiny network: callbacks, epochs, monitors.

    python benchmarks/loop.py [--smoke]

TensorFlow's own loops and the bare call share one process, ours share another one, eager TensorFlow and
upstream Tensorpack have one each, all with a trainer's session options. They take turns, and all processes
are started anew for each round. First epochs do not count: in them graphs are pruned and functions traced.

Further rows train the same network on shuffled batches of arrays, by flows and by peers (`_loop_flows.py`).

Steps that are a call of their own are compared with the bare call, and the default mode of trainers, which
runs several in one call, with the bare step in a loop within the graph.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

import _loop_flows
import _processes
import _rounds
import _upstream
import _verdicts
import numpy as np
from _screen import on_screen

ROUNDS, EPOCHS = _rounds.shorter(5), 3
STEPS, BATCH = _rounds.shorter(1000, 100), 32
STEPS_A_CALL = 100

RECORDED = "trainer, default callbacks and monitors"
NOT_RECORDED = "trainer, the same without averages"
# A hundredth of a step of LeNet (`digits.py`).
RECORDING = 6.5  # microseconds
BARE, LIMIT = "bare make_callable", "bare, in a loop within the graph"

Times = list[float]


def per_step(seconds: Times, steps: int) -> float:
    """Microseconds a step, without the first epoch."""
    return 1e6 * median(seconds[1:]) / steps


# ---- the tiny MLP: 64-32-10


def mlp_inputs(tf):
    """A batch that is in the graph already; not constants, which TensorFlow would compute with beforehand."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(BATCH, 64)).astype(np.float32)
    y = draw.integers(0, 10, BATCH).astype(np.int32)
    return [tf.placeholder_with_default(tf.constant(array), array.shape) for array in (x, y)]


def mlp_cost(tf, x, y):
    """The cost of the network."""
    draw = tf.random_normal_initializer(stddev=0.1, seed=1)
    hidden = tf.nn.relu(x @ tf.get_variable("w0", [64, 32], initializer=draw) + tf.get_variable("b0", [32]))
    logits = hidden @ tf.get_variable("w1", [32, 10], initializer=draw) + tf.get_variable("b1", [10])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tf.reduce_mean(losses, name="cost")


def timed(call: Callable[[], object], steps_a_call: int = 1) -> Callable[[], float]:
    """Measures a call of one step or several, as a training is: in epochs, of which the first does not count.

    The first steps after another subject's turn take up to 1.4 times as long as all that follow.
    """

    def epoch() -> float:
        begin = time.perf_counter()
        for _ in range(STEPS // steps_a_call):
            call()
        return time.perf_counter() - begin

    return lambda: per_step([epoch() for _ in range(EPOCHS)], STEPS)


def session_loops() -> dict[str, Callable[[], float]]:
    """TensorFlow's own ways to run a graph."""
    import tensorflow.compat.v1 as tf
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    from towerpack_trainers import default_session_config
    from towerpack_trainers.towers._copies_of_step import StepCopies
    from towerpack_trainers.towers._devices import configure_process

    config = default_session_config()
    configure_process(config)  # as trainers do: building a loop would give TensorFlow the wrong threads
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF  # as trainers do without convolutions
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("", use_resource=True):
        inputs = mlp_inputs(tf)
        # Gated and copied as trainers do it: their loop is measured here, not their graph.
        gating = tf.train.Optimizer.GATE_GRAPH
        train_op = tf.train.AdamOptimizer(1e-3).minimize(mlp_cost(tf, *inputs), gate_gradients=gating)
        tf.train.get_or_create_global_step()
        init = tf.global_variables_initializer()
        looped = StepCopies([train_op], optimize=True).loop(lambda done: done < STEPS_A_CALL, "steps")
    session = tf.Session(graph=graph, config=config)
    session.run(init)
    feed = dict(zip(inputs, session.run(inputs)))

    def monitored(hooks: int) -> Callable[[], float]:
        with graph.as_default():
            session = tf.train.MonitoredTrainingSession(
                hooks=[tf.train.SessionRunHook() for _ in range(hooks)],
                config=config,
                log_step_count_steps=None,
            )
        return timed(lambda: session.run(train_op))

    return {
        BARE: timed(session.make_callable(train_op)),
        LIMIT: timed(session.make_callable(looped), STEPS_A_CALL),
        "Session.run": timed(lambda: session.run(train_op)),
        "Session.run with feed_dict": timed(lambda: session.run(train_op, feed)),
        "MonitoredSession, 0 hooks": monitored(0),
        "MonitoredSession, 10 hooks": monitored(10),
    }


def our_loops() -> dict[str, Callable[[], float]]:
    """`SimpleTrainer` with ever more to do besides the steps."""
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochTimes

    from towerpack_callbacks import (
        Callback,
        MergeAllSummaries,
        ProgressBar,
        RunUpdateOps,
        StepFetch,
        add_moving_summary,
    )
    from towerpack_inputsource import TensorInput
    from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

    class MLP(ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([BATCH, 64], tf.float32, "x"),
                tf.TensorSpec([BATCH], tf.int32, "y"),
            ]

        def build_graph(self, x, y):
            cost = mlp_cost(tf, x, y)
            add_moving_summary(cost)
            return cost

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    class Idle(Callback):
        def _trigger_epoch(self) -> None:
            self.triggered = True

    class FetchCost(Callback):
        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["cost"])[0], self.receive)]

        def receive(self, cost) -> None:
            self.cost = cost

    def training(callbacks=(), steps=STEPS, epochs=EPOCHS, **options) -> Times:
        watch = EpochTimes()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
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

    nothing, single = {"extra_callbacks": [], "monitors": []}, {"steps_per_run": 1}

    def ten_idle() -> list[Callback]:
        return [Idle() for _ in range(10)]

    def without_averages() -> list[Callback]:
        return [ProgressBar(), MergeAllSummaries(), RunUpdateOps()]

    def looped(make_callbacks=list, **options) -> Callable[[], float]:
        return lambda: per_step(training(make_callbacks(), **options), STEPS)

    def epoch() -> float:
        """Microseconds of a whole epoch of one step, default callbacks and monitors."""
        epochs, begin = _rounds.shorter(200, 5), time.perf_counter()
        training(steps=1, epochs=50)
        short = time.perf_counter() - begin
        begin = time.perf_counter()
        training(steps=1, epochs=50 + epochs)
        return 1e6 * (time.perf_counter() - begin - short) / epochs

    return {
        "trainer, no callbacks": looped(**nothing),
        "trainer, no callbacks, steps_per_run=1": looped(**nothing, **single),
        "trainer, ten idle callbacks": looped(ten_idle, **nothing),
        "trainer, ten idle callbacks, steps_per_run=1": looped(ten_idle, **nothing, **single),
        RECORDED: looped(),
        NOT_RECORDED: looped(without_averages, extra_callbacks=[]),
        "trainer, default callbacks and monitors, steps_per_run=1": looped(**single),
        "trainer, ten callbacks that fetch the loss": looped(
            lambda: [FetchCost() for _ in range(10)], **nothing
        ),
        "trainer, steps_per_run=100": looped(steps_per_run=100, **nothing),
        "trainer, one epoch of one step": epoch,
    }


def eager_loops() -> dict[str, Callable[[], float]]:
    """The same network in `tf.function` and in Keras 3."""
    import keras
    import tensorflow as tf
    from _keras_epochs import epoch_times

    tf.config.threading.set_intra_op_parallelism_threads(1)
    draw = np.random.default_rng(0)
    xs = draw.normal(size=(STEPS * BATCH, 64)).astype(np.float32)
    ys = draw.integers(0, 10, len(xs)).astype(np.int32)
    x, y = tf.constant(xs[:BATCH]), tf.constant(ys[:BATCH])

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

    def fit(steps_per_execution: int) -> Callable[[], float]:
        fitted = network()
        fitted.compile("adam", loss, steps_per_execution=steps_per_execution)

        def run() -> float:
            watch, seconds = epoch_times()
            fitted.fit(xs, ys, BATCH, epochs=EPOCHS, callbacks=[watch], verbose=0, shuffle=False)
            return per_step(seconds, STEPS)

        return run

    def evaluate(jit_compile: bool) -> Callable[[], float]:
        """In its fastest way: many steps a call, of batches that `tf.data` keeps."""
        evaluated = network()
        options = {"steps_per_execution": min(1000, STEPS), "jit_compile": jit_compile}
        evaluated.compile(loss=loss, **options)
        kept = tf.data.Dataset.from_tensor_slices((xs, ys)).batch(BATCH).cache().prefetch(tf.data.AUTOTUNE)

        def run() -> float:
            seconds = []
            for _ in range(EPOCHS):
                begin = time.perf_counter()
                evaluated.evaluate(kept, verbose=0)
                seconds.append(time.perf_counter() - begin)
            return per_step(seconds, STEPS)

        return run

    return {
        "tf.function": timed(step),
        "Keras fit": fit(1),
        "Keras fit, steps_per_execution=100": fit(100),
        f"{_loop_flows.KERAS}, no XLA": evaluate(False),
        f"{_loop_flows.KERAS}, XLA": evaluate(True),
    }


# ---- upstream


def upstream_mlp() -> Callable[[], float]:
    """Tensorpack 0.11 on the tiny MLP, its data in the graph."""
    tf, tensorpack = _upstream.upstream()

    class MLP(tensorpack.ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([BATCH, 64], tf.float32, "x"),
                tf.TensorSpec([BATCH], tf.int32, "y"),
            ]

        def build_graph(self, x, y):
            cost = mlp_cost(tf, x, y)
            tensorpack.summary.add_moving_summary(cost)
            return cost

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    def run() -> float:
        data = tensorpack.input_source.TensorInput(lambda: mlp_inputs(tf))
        return _upstream.microseconds_a_step(tf, tensorpack, MLP(), data, STEPS, EPOCHS)

    return run


# ---- the report


@contextlib.contextmanager
def subjects() -> Iterator[dict[str, _processes.Function]]:
    """All that is measured, in new processes, warmed up."""
    ours = {
        "sessions": session_loops,
        "ours": our_loops,
        "eager": eager_loops,
        "flows": _loop_flows.our_flows,
    }
    peers = {"jax": _loop_flows.jax_loops, "torch": _loop_flows.torch_loops}
    ours.update({name: make for name, make in peers.items() if importlib.util.find_spec(name)})
    with _upstream.beside(ours, {"Tensorpack 0.11": upstream_mlp}) as functions:
        for run in functions.values():
            run()
        yield {name: functools.partial(_noting_cpu, name, run) for name, run in functions.items()}


# Microseconds of processor time in a step, of the subjects that tell.
_cpu: _rounds.Figures = {}


def _noting_cpu(name: str, run: _processes.Function) -> float:
    figure = run()
    if not isinstance(figure, tuple):
        return figure
    wall, cpu = figure
    _cpu.setdefault(name, []).append(cpu)
    return wall


def main() -> None:
    """Measures the overhead of a loop for a step of 0.1 ms."""
    print(_rounds.heading(*_upstream.PACKAGES, "jax", "torch"))
    figures = _rounds.measure_afresh(subjects, ROUNDS)
    epoch = figures.pop("trainer, one epoch of one step")
    print(
        f"tiny MLP (64-32-10, batch 32): microseconds a step, median of {ROUNDS} interleaved rounds (range)"
    )
    for name, values in figures.items():
        cpu = f"; processor {_rounds.summary(_cpu[name], '6.1f')}" if name in _cpu else ""
        print(f"  {name:<52} {_rounds.summary(values, '6.1f')}{cpu}")
    verdicts = _verdicts.Verdicts()
    print("microseconds added to a bare call, by steps that are a call of their own")
    for name, limit in {
        "trainer, no callbacks, steps_per_run=1": 15,
        "trainer, ten idle callbacks, steps_per_run=1": 20,
        "trainer, default callbacks and monitors, steps_per_run=1": 40,
        "trainer, ten callbacks that fetch the loss": 60,
    }.items():
        verdicts.at_most(name, added(figures[name], figures[BARE]), limit, ".1f")
    by_round = added(figures[RECORDED], figures[NOT_RECORDED])
    verdicts.at_most("microseconds that the average of the cost adds", by_round, RECORDING, ".1f")
    print("the bare step looped within the graph / a trainer's step, several in a call")
    for name in ("trainer, no callbacks", "trainer, ten idle callbacks", "trainer, steps_per_run=100"):
        verdicts.at_least(name, _rounds.ratios(figures[LIMIT], figures[name]), 0.98)
    by_round = _rounds.ratios(figures[LIMIT], figures[RECORDED])
    verdicts.untargeted(f"{RECORDED}, which also average the cost", by_round)
    verdicts.at_most("milliseconds of an epoch of one step", [value / 1e3 for value in epoch], 2)
    judge_flows(verdicts, figures)
    verdicts.leave()


def judge_flows(verdicts: _verdicts.Verdicts, figures: _rounds.Figures) -> None:
    """Compares the trainings that read from flows, by steps per second."""
    names = _loop_flows
    ways = [name for name in figures if name.startswith(names.KERAS)]
    evaluation = min(ways, key=lambda name: median(figures[name]))
    print("steps/s from a flow / of another subject; processor time beside it above")
    for ours, other, least in [
        (names.FLOW, names.RESIDENT, 0.8),
        (names.FLOW, names.JAX, 1.3),
        (names.FLOW, names.JAX_SCAN, None),
        (names.COMPILED, names.JAX, 1.3),
        (names.COMPILED, names.JAX_SCAN, None),
        (names.FLOW, names.TORCH, 3),
        (names.FLOW, "Keras fit, steps_per_execution=100", 4),
        (names.MAPPED, names.BARE_MAPPED, 0.8),
        (names.EVALUATED, names.FORWARD, 0.8),
        (names.PREDICTED, names.FORWARD, 0.8),
        (names.EVALUATED, evaluation, 2),
        (names.PREDICTED, evaluation, 2),
    ]:
        if other not in figures:
            continue
        by_round, what = _rounds.ratios(figures[other], figures[ours]), f"{ours} / {other}"
        if least is None:
            verdicts.untargeted(what, by_round)
        else:
            verdicts.at_least(what, by_round, least)


def added(values: list[float], others: list[float]) -> list[float]:
    """The difference, round by round."""
    return [one - other for one, other in zip(values, others)]


if __name__ == "__main__":
    main()
