"""LeNet on the digits, in steps per second: the bare training step, SimpleTrainer, and its peers.

    python benchmarks/digits.py [--smoke]

All train the network of examples/digits_lenet.py (89,994 weights, dropout and weight decay included) with
Adam at a constant rate and batch size 32. Each has a process of its own, since TensorFlow chooses its threads
once per process; they take turns, and all processes are started anew for each round. An epoch has 300 steps,
and the first one of each training is not counted: in it graphs are pruned and functions traced.

Targets are judged against the fastest of all measured ways of Keras, of JAX and of PyTorch. The limit of
SimpleTrainer's default mode is the bare step in a loop within the graph: both run several steps in one
session call. With steps_per_run=1 the limit is the bare call.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

import _keras_lenet
import _lenet_peers
import _rounds
import _upstream
import _verdicts
from _lenet import BATCH, EPOCHS, STEPS, WEIGHTS, Measured, first_batch, lenet, timed, timed_epochs
from _screen import on_screen

ROUNDS = _rounds.shorter(5)
# Of the bare step that loops within the graph; a trainer ends a call after so many, or after 0.05 s.
STEPS_A_CALL = 20


def bare(session_config, steps_a_call: int = 1, optimize: bool = False) -> Callable[[], Measured]:
    """The minimum of a graph-mode loop: one cached callable, on an existing batch.

    Args:
        session_config: the session's options.
        steps_a_call: more than one are a loop within the graph, of copies of the step.
        optimize: whether the copies are changed as those of a trainer are.
    """
    import tensorflow.compat.v1 as tf

    from towerpack_layers import TowerContext
    from towerpack_trainers.towers._copies_of_step import StepCopies
    from towerpack_trainers.towers._devices import configure_process

    if session_config is not None:
        configure_process(session_config)  # as trainers do, before anything is built
    model = lenet()
    with tf.Graph().as_default():
        # Not constants: TensorFlow would compute the start of the network once and for all.
        inputs = [
            tf.placeholder_with_default(tf.constant(array, spec.dtype), array.shape)
            for array, spec in zip(first_batch(), model.inputs())
        ]
        with TowerContext("", is_training=True):
            cost = model.build_graph(*inputs)
        # Gated as single steps of trainers are: TensorFlow's own gate is not faster in the loop either.
        train_op = tf.train.AdamOptimizer(1e-3).minimize(cost, gate_gradients=tf.train.Optimizer.GATE_GRAPH)
        weights = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
        assert weights == WEIGHTS, weights
        if steps_a_call > 1:
            copies = StepCopies([train_op], optimize=optimize)
            train_op = copies.loop(lambda done: done < steps_a_call, "steps")
        session = tf.Session(config=session_config)
        session.run(tf.global_variables_initializer())
        step = session.make_callable(train_op)

    def epoch() -> int:
        for _ in range(STEPS // steps_a_call):
            step()
        return STEPS // steps_a_call * steps_a_call

    return lambda: timed(epoch, EPOCHS)


def bare_as_trainer() -> Callable[[], Measured]:
    """The bare step with the session options a trainer takes by default."""
    from towerpack_trainers import default_session_config

    return bare(default_session_config())


def bare_in_loop() -> Callable[[], Measured]:
    """The bare step in a loop within the graph, with a trainer's session options."""
    from towerpack_trainers import default_session_config

    return bare(default_session_config(), STEPS_A_CALL)


def bare_as_copied() -> Callable[[], Measured]:
    """The bare step in a loop within the graph, changed as a trainer changes its copies of a step."""
    from towerpack_trainers import default_session_config

    return bare(default_session_config(), STEPS_A_CALL, optimize=True)


def bare_as_tensorflow() -> Callable[[], Measured]:
    """The bare step with TensorFlow's own default options."""
    return bare(None)


def simple_trainer(steps_per_run: int | None = None) -> Callable[[], Measured]:
    """The code of a user: a flow, default callbacks, default monitors."""
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochTimes

    from towerpack_dataflow import BatchData
    from towerpack_dataflow.datasets import Digits
    from towerpack_trainers import SimpleTrainer, TrainConfig

    flow, model = BatchData(Digits("train"), BATCH), lenet()

    def run() -> Measured:
        stopwatch = EpochTimes()
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
        return timed_epochs(whole, stopwatch.seconds, stopwatch.processor)

    return run


def tensorpack_lenet() -> Callable[[], Measured]:
    """Tensorpack 0.11: the same network, its own flows, `QueueInput` and default callbacks."""
    tf, tensorpack = _upstream.upstream()
    from tensorpack.dataflow import BatchData, DataFromList

    from towerpack_dataflow.datasets import Digits

    batches = BatchData(DataFromList(list(Digits("train"))), BATCH)

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

    def run() -> Measured:
        data, begin = tensorpack.QueueInput(batches), time.perf_counter()
        step = _upstream.microseconds_a_step(tf, tensorpack, LeNet(), data, STEPS, EPOCHS)
        return Measured(time.perf_counter() - begin, 1e6 / step)

    return run


TENSORPACK = "Tensorpack 0.11"
LIMIT, BARE = "bare step, in a loop within the graph", "bare step, one a call"
COPIED = "bare step, in that loop, as trainers copy it"
OURS = {
    BARE: bare_as_trainer,
    LIMIT: bare_in_loop,
    COPIED: bare_as_copied,
    "bare step, one a call, TensorFlow's options": bare_as_tensorflow,
    "SimpleTrainer": simple_trainer,
    "SimpleTrainer, steps_per_run=1": functools.partial(simple_trainer, 1),
    "SimpleTrainer, steps_per_run=100": functools.partial(simple_trainer, 100),
}


def report(figures: dict[str, list[Measured]]) -> None:
    """Prints all figures, and ratios with their targets."""
    print(f"steps/s within epochs, and processor ms of a step, median of {ROUNDS} interleaved rounds (range)")
    rates = {name: [one.rate for one in each] for name, each in figures.items()}
    for name, values in rates.items():
        processor = [one.processor for one in figures[name] if one.processor is not None]
        cpu = f"; processor {_rounds.summary(processor, '5.2f')}" if processor else ""
        print(f"  {name:<50} {_rounds.summary(values, '6.0f')}{cpu}")
    print(f"seconds for a whole training of {EPOCHS * STEPS} steps, from its construction to its end")
    for name, each in figures.items():
        if name.startswith(("SimpleTrainer", "Keras", TENSORPACK)):
            print(f"  {name:<50} {_rounds.summary([one.whole for one in each], '6.2f')}")
    best = {
        peer: max(found, key=lambda name: median(rates[name]))
        for peer in ("Keras", "JAX", "PyTorch")
        if (found := [name for name in rates if name.startswith(peer)])
    }
    print(f"ratios of steps/s, by round; the fastest ways of the peers: {'; '.join(best.values())}")
    verdicts = _verdicts.Verdicts()

    def compare(ours: str, other: str | None, least: float | None) -> None:
        if other not in rates:
            return
        by_round = _rounds.ratios(rates[ours], rates[other])
        if least is None:
            verdicts.untargeted(f"{ours} / {other}", by_round)
        else:
            verdicts.at_least(f"{ours} / {other}", by_round, least)

    compare("SimpleTrainer", LIMIT, 0.97)
    compare("SimpleTrainer", COPIED, None)
    compare("SimpleTrainer, steps_per_run=1", BARE, 0.93)
    compare("SimpleTrainer", best["Keras"], 1.3)
    compare("SimpleTrainer", "Keras fit, as installed", 2.5)
    compare("SimpleTrainer, steps_per_run=1", best["Keras"], None)
    compare("SimpleTrainer", best.get("JAX"), 1.25)
    compare("SimpleTrainer", best.get("PyTorch"), 2)
    compare("SimpleTrainer", TENSORPACK, 1.15)
    compare("SimpleTrainer, steps_per_run=1", TENSORPACK, 1)
    verdicts.leave()


def main() -> None:
    """Starts all processes, measures them in turn, and prints."""
    print(_rounds.heading(*_upstream.PACKAGES, "jax", "torch"))
    figures: dict[str, list[Measured]] = {}

    def rate(name: str, run: Callable[[], Measured]) -> float:
        figures.setdefault(name, []).append(measured := run())
        return measured.rate

    @contextlib.contextmanager
    def subjects() -> Iterator[dict[str, Callable[[], float]]]:
        ours = {**OURS, **_keras_lenet.subjects(), **_lenet_peers.subjects()}
        with _upstream.beside(ours, {TENSORPACK: tensorpack_lenet}) as functions:
            for run in functions.values():
                run()
            yield {name: functools.partial(rate, name, run) for name, run in functions.items()}

    _rounds.measure_afresh(subjects, ROUNDS)
    report(figures)


if __name__ == "__main__":
    main()
