"""6.3 MB batches from a worker process into a step that reads one number of each: what the way costs.

    python benchmarks/large_batch.py [--smoke]

Three figures: the milliseconds of a step that finds its batch there, after a pause that let the queue fill
again; batches a second without pauses; processor time a batch, of the process and its workers. A copy that
is planted between worker and queue shows that the last two would notice one; the first would not.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from statistics import median

import _processes
import _rounds
import _upstream
import _verdicts
import numpy as np
import psutil

ROUNDS, LARGE = _rounds.shorter(5), (128, 64, 64, 3)  # 6.3 MB of float32
STEPS = _rounds.shorter(1000, 50)
# Long enough for a worker to fill the queue again.
PAUSE = 0.005

# A figure for each of the three.
Figures = dict[str, Callable[[], float]]


def batch() -> np.ndarray:
    """6.3 MB of float32."""
    return np.random.default_rng(0).normal(size=LARGE).astype(np.float32)


def figures(name: str, step: Callable[[], object]) -> Figures:
    """The three figures of a step."""
    return {
        f"{name}: ms": functools.partial(milliseconds, step),
        f"{name}: batches/s": functools.partial(throughput, step),
        f"{name}: cpu ms": functools.partial(processor_time, step),
    }


def milliseconds(step: Callable[[], object]) -> float:
    """Milliseconds of a step after a pause."""
    seconds = []
    for _ in range(STEPS // 10):
        time.sleep(PAUSE)
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return 1e3 * median(seconds)


def throughput(step: Callable[[], object]) -> float:
    """Batches a second without pauses."""
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return STEPS / (time.perf_counter() - begin)


def processor_time(step: Callable[[], object]) -> float:
    """Milliseconds of all cores a batch."""
    begin = cpu_seconds()
    for _ in range(STEPS):
        step()
    return 1e3 * (cpu_seconds() - begin) / STEPS


def cpu_seconds() -> float:
    """Of this process and its workers."""
    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return sum(used.user + used.system for used in times)


def ours() -> Figures:
    """A variable in the graph, `QueueInput` over a worker, and the same with a copy planted."""
    import tensorflow.compat.v1 as tf

    from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner
    from towerpack_inputsource import QueueInput
    from towerpack_trainers import default_session_config

    config = default_session_config()

    def step_of(read: Callable[[], tf.Tensor], hooks: Callable[[], list]) -> Callable[[], object]:
        with tf.Graph().as_default():
            out = read()[0, 0, 0, 0]
            tf.train.get_or_create_global_step()
            session = tf.train.MonitoredTrainingSession(
                hooks=hooks(), config=config, log_step_count_steps=None
            )
        # The session itself: a MonitoredSession would add its own time to both.
        return session.run_step_fn(lambda step_context: step_context.session).make_callable(out)

    def resident() -> tf.Tensor:
        return tf.get_variable("x", initializer=batch(), use_resource=True)

    def queued(flow: MultiProcessRunner | MapData) -> Callable[[], object]:
        source = QueueInput(flow, capacity=8)

        def read() -> tf.Tensor:
            source.setup([tf.TensorSpec(LARGE, tf.float32, "x")])
            return source.get_input_tensors()[0]

        return step_of(read, source.hooks)

    def from_worker() -> MultiProcessRunner:
        return MultiProcessRunner(DataFromList([[batch()]] * 8), 1)

    copied = MapData(from_worker(), lambda datapoint: [datapoint[0].copy()])
    return {
        **figures(RESIDENT, step_of(resident, list)),
        **figures(OURS, queued(from_worker())),
        **figures(COPIED, queued(copied)),
    }


def theirs() -> Figures:
    """Upstream: a worker that sends by ZMQ, and its `QueueInput`."""
    tf, tensorpack = _upstream.upstream()
    from tensorpack.dataflow import DataFromList, MultiProcessRunnerZMQ, RepeatedData

    from towerpack_trainers import default_session_config

    flow = RepeatedData(DataFromList([[batch()]] * 8, shuffle=False), -1)
    source = tensorpack.QueueInput(
        MultiProcessRunnerZMQ(flow, 1, hwm=4), queue=tf.FIFOQueue(8, [tf.float32], [LARGE])
    )
    source.setup([tf.TensorSpec(LARGE, tf.float32, "x")])
    out = source.get_input_tensors()[0][0, 0, 0, 0]
    source._inf_ds.reset_state()
    session = tf.Session(config=default_session_config())
    with session.as_default():
        source.thread.start()
    return figures(TENSORPACK, session.make_callable(out))


RESIDENT, OURS = "resident variable", "QueueInput over a worker"
COPIED, TENSORPACK = "QueueInput over a worker, a copy planted", "Tensorpack 0.11"


@contextlib.contextmanager
def subjects() -> Iterator[dict[str, _processes.Function]]:
    """All that is measured, in new processes, warmed up."""
    with _upstream.beside({"ours": ours}, {TENSORPACK: theirs}) as functions:
        for run in functions.values():
            run()
        yield functions


def main() -> None:
    """Measures and judges."""
    print(_rounds.heading(*_upstream.PACKAGES))
    measured = _rounds.measure_afresh(subjects, ROUNDS)
    print(f"6.3 MB float32 batches into a trivial step, median of {ROUNDS} interleaved rounds (range)")
    for name, values in measured.items():
        print(f"  {name:<52} {_rounds.summary(values, '8.3f')}")
    verdicts = _verdicts.Verdicts()
    added = [one - other for one, other in zip(measured[f"{OURS}: ms"], measured[f"{RESIDENT}: ms"])]
    verdicts.at_most("ms that a queue adds to a resident variable", added, 0.1, ".3f")

    def ratio(one: str, other: str) -> list[float]:
        return _rounds.ratios(measured[one], measured[other])

    verdicts.at_least(
        "a planted copy shows: cpu ms with it / without", ratio(f"{COPIED}: cpu ms", f"{OURS}: cpu ms"), 1.1
    )
    if f"{TENSORPACK}: ms" in measured:
        verdicts.at_least("ms, Tensorpack / ours", ratio(f"{TENSORPACK}: ms", f"{OURS}: ms"), 2)
        verdicts.at_least(
            "batches/s, ours / Tensorpack", ratio(f"{OURS}: batches/s", f"{TENSORPACK}: batches/s"), 2
        )
        verdicts.at_least("cpu ms, Tensorpack / ours", ratio(f"{TENSORPACK}: cpu ms", f"{OURS}: cpu ms"), 2)
    verdicts.leave()


if __name__ == "__main__":
    main()
