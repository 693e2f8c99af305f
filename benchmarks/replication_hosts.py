"""The cost of exchanging gradients between two processes, compared with TensorFlow's strategy and MPI.

Each subject is a pair of processes that lives through the whole benchmark and is measured in turn with the
others.

    python benchmarks/replication_hosts.py [--smoke]
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path

import _rounds
import _verdicts

ROUNDS = _rounds.shorter(15)
SCENARIOS = {"1M floats in 30 tensors": [33_334] * 30, "1000 floats in 100 tensors": [10] * 100}
LARGE, SMALL = SCENARIOS
STEPS = {LARGE: 15, SMALL: 60}
CONVNET = "CIFAR convnet, B = 32"
CONVNET_STEPS = 10
ALONE = "1 process"
ALONE_EACH, OURS, MPI = "no exchange", "DistributedTrainer's exchange", "MPITrainer's exchange"
TENSORFLOW = "MultiWorkerMirroredStrategy"

GET_READY = 300  # seconds

Measure = Callable[[str], float]


# ---- in the processes


def make_step(sizes: list[int], average: Callable) -> Callable:
    """Adds a step of gradient descent on many variables; returns its op."""
    import tensorflow.compat.v1 as tf

    with tf.variable_scope(f"of{len(sizes)}"):
        variables = [tf.get_variable(f"v{k}", [size]) for k, size in enumerate(sizes)]
        cost = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
    optimizer = tf.train.GradientDescentOptimizer(1e-6)
    return optimizer.apply_gradients(average(optimizer.compute_gradients(cost, variables)))


def make_convnet_step(average: Callable) -> Callable:
    """Adds a training step of a small convolutional network on random images; returns its op."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import Conv2D, FullyConnected, MaxPooling, TowerContext, argscope

    image, label = tf.random.normal([32, 32, 32, 3]), tf.zeros([32], tf.int32)
    with TowerContext("", is_training=True), argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
        hidden = MaxPooling("pool0", Conv2D("conv1", Conv2D("conv0", image, 32), 32), 2)
        hidden = MaxPooling("pool1", Conv2D("conv3", Conv2D("conv2", hidden, 64), 64), 2)
        logits = FullyConnected("fc1", FullyConnected("fc0", hidden, 128, activation=tf.nn.relu), 10)
    cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
    optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
    return optimizer.apply_gradients(average(optimizer.compute_gradients(cost)))


def one_core(rank: int) -> None:
    """Leaves this process one core; to be called before TensorFlow counts them."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def timed(run: Callable[[], object], steps: int) -> float:
    """Milliseconds of one of `steps` steps."""
    begin = time.perf_counter()
    for _ in range(steps):
        run()
    return (time.perf_counter() - begin) / steps * 1000


def measure_pieces(communicator: object, convnet: bool = False) -> Measure:
    """Steps with the exchange of a communicator; without any if it is None."""
    import tensorflow.compat.v1 as tf

    from towerpack_trainers.distributed import average_over_processes

    def average(pairs: list) -> list:
        return pairs if communicator is None else average_over_processes(pairs, communicator).pairs

    with tf.Graph().as_default():
        if convnet:
            steps = {CONVNET: make_convnet_step(average)}
        else:
            steps = {name: make_step(sizes, average) for name, sizes in SCENARIOS.items()}
        config = tf.ConfigProto(intra_op_parallelism_threads=1)
        if communicator is not None:
            config = communicator.prepare(config)
        session = tf.Session(communicator.target if communicator else "", config=config)
        session.run(tf.global_variables_initializer())
        runs = {name: session.make_callable(step) for name, step in steps.items()}
    return lambda name: timed(runs[name], STEPS.get(name, CONVNET_STEPS))


def no_exchange(rank: int) -> Measure:
    """The same steps, each process for itself."""
    return measure_pieces(None)


def collectives(rank: int) -> Measure:
    """Ours, on TensorFlow's collectives."""
    from towerpack_trainers.distributed import CollectiveCommunicator, resolve_cluster

    return measure_pieces(CollectiveCommunicator(resolve_cluster()))


def mpi(rank: int) -> Measure:
    """Ours, on MPI."""
    from towerpack_trainers.distributed import MPICommunicator

    return measure_pieces(MPICommunicator())


def multi_worker_mirrored(rank: int) -> Measure:
    """TensorFlow's own strategy, in graph mode."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
        config = strategy.update_config_proto(tf.ConfigProto(intra_op_parallelism_threads=1))
        cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
        server = tf.distribute.Server(cluster, job_name="worker", task_index=rank, config=config)
        with strategy.scope():
            optimizer = tf.train.GradientDescentOptimizer(1e-6)

            def replica(name: str) -> object:
                sizes = SCENARIOS[name]
                with tf.variable_scope(f"of{len(sizes)}"):
                    variables = [tf.get_variable(f"v{k}", [size]) for k, size in enumerate(sizes)]
                cost = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables])
                return optimizer.minimize(cost)

            steps = {
                name: tf.group(*strategy.experimental_local_results(strategy.run(replica, args=(name,))))
                for name in SCENARIOS
            }
            initialize = tf.global_variables_initializer()
        session = tf.Session(server.target, config=config)
        session.run(initialize)
        runs = {name: session.make_callable(step) for name, step in steps.items()}
    return lambda name: timed(runs[name], STEPS[name])


def convnet_alone(rank: int) -> Measure:
    """One process on one core."""
    one_core(0)
    return measure_pieces(None, convnet=True)


def convnet_pair(rank: int) -> Measure:
    """Two processes on one core each, as much as they can do at all."""
    one_core(rank)
    return measure_pieces(None, convnet=True)


def convnet_collectives(rank: int) -> Measure:
    """Two processes on one core each, with TensorFlow's collectives."""
    one_core(rank)
    from towerpack_trainers.distributed import CollectiveCommunicator, resolve_cluster

    return measure_pieces(CollectiveCommunicator(resolve_cluster()), convnet=True)


def convnet_mpi(rank: int) -> Measure:
    """Two processes on one core each, with MPI."""
    one_core(rank)
    from towerpack_trainers.distributed import MPICommunicator

    return measure_pieces(MPICommunicator(), convnet=True)


SUBJECTS: dict[str, tuple[Callable[[int], Measure], list[str]]] = {
    ALONE_EACH: (no_exchange, [LARGE, SMALL]),
    OURS: (collectives, [LARGE, SMALL]),
    MPI: (mpi, [LARGE, SMALL]),
    TENSORFLOW: (multi_worker_mirrored, [LARGE, SMALL]),
    ALONE: (convnet_alone, [CONVNET]),
    "2 processes, no exchange": (convnet_pair, [CONVNET]),
    "DistributedTrainer's, 2 processes": (convnet_collectives, [CONVNET]),
    "MPITrainer's, 2 processes": (convnet_mpi, [CONVNET]),
}


def serve(subject: str, rank: int, address: str) -> None:
    """A subject's process: gets ready, then measures once per order."""
    with Client(address) as orders:
        measure = SUBJECTS[subject][0](rank)
        for name in SUBJECTS[subject][1]:
            measure(name)  # warm-up
        orders.send("ready")
        while (name := orders.recv()) is not None:
            orders.send(measure(name))


# ---- in the one that compares


def free_addresses(count: int) -> list[str]:
    """Addresses at which nobody listens now; our own function for it would import TensorFlow here."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def start(subject: str, listener: Listener) -> list[subprocess.Popen]:
    """Starts a subject's processes."""
    count = 1 if subject == ALONE else 2
    command = [sys.executable, __file__, "--serve", subject, str(listener.address)]
    if subject.startswith("MPI"):
        mpiexec = shutil.which(
            "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        return [subprocess.Popen([mpiexec, "-n", "2", *command])]
    processes = []
    addresses = free_addresses(count)
    for rank in range(count):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        env = {**os.environ, "TF_CONFIG": json.dumps(task)}
        processes.append(subprocess.Popen(command, env=env))
    return processes


def answered(listener: Listener, count: int) -> list[Connection]:
    """The lines of a subject's processes, when all of them are ready."""
    lines = [listener.accept() for _ in range(count)]
    waited_for = list(lines)
    while waited_for:
        ready = wait(waited_for, GET_READY)
        assert ready, f"{len(waited_for)} of {count} processes were not ready within {GET_READY} s"
        for line in ready:
            assert line.recv() == "ready"
            waited_for.remove(line)
    return lines


def ask(lines: list[Connection], name: str) -> float:
    """One figure of a subject: that of its slower process."""
    for line in lines:
        line.send(name)
    return max(line.recv() for line in lines)


def report(figures: dict[str, _rounds.Figures]) -> None:
    """Prints all figures, and the overhead of the exchange with its limit."""
    verdicts = _verdicts.Verdicts()
    print(f"ms per step of 2 processes, median of {ROUNDS} interleaved rounds (range)")
    for name, at_most in {LARGE: 5, SMALL: 2}.items():
        print(f"  {name}")
        base = figures[name][ALONE_EACH]
        added = {
            subject: [value - other for value, other in zip(values, base)]
            for subject, values in figures[name].items()
        }
        for subject, values in figures[name].items():
            print(f"    {subject:<34} {_rounds.summary(values, '7.2f')}")
        verdicts.at_most(f"added by {MPI}", added[MPI], at_most)
        ratios = _rounds.ratios(added[OURS], added[TENSORFLOW])
        verdicts.at_most(f"added by {OURS} / by {TENSORFLOW}", ratios, 1)
    print(f"  {CONVNET}, each process on one core: images/s")
    rates = {
        subject: [(32_000 if subject == ALONE else 64_000) / value for value in values]
        for subject, values in figures[CONVNET].items()
    }
    for subject, values in rates.items():
        print(f"    {subject:<34} {_rounds.summary(values, '7.0f')}")
    for subject in rates:
        by_round = _rounds.ratios(rates[subject], rates[ALONE])
        if subject.endswith("Trainer's, 2 processes"):
            verdicts.at_least(f"{subject} / {ALONE}", by_round, 1.8)
        elif subject != ALONE:
            verdicts.untargeted(f"{subject} / {ALONE}", by_round)
    verdicts.leave()


def main() -> None:
    """Starts all processes, measures them in turn, and prints."""
    print(_rounds.heading("tensorflow", "numpy", "mpi4py"))
    started = []
    with tempfile.TemporaryDirectory() as place, Listener(f"{place}/orders") as listener:
        try:
            lines = {}
            for subject in SUBJECTS:  # one after another: ports are chosen free, and taken only later
                started += start(subject, listener)
                lines[subject] = answered(listener, 1 if subject == ALONE else 2)
            figures = {}
            for name in (*SCENARIOS, CONVNET):
                subjects = {
                    subject: (lambda subject=subject, name=name: ask(lines[subject], name))
                    for subject, (_, names) in SUBJECTS.items()
                    if name in names
                }
                figures[name] = _rounds.measure(subjects, ROUNDS)
            for line in (line for pair in lines.values() for line in pair):
                line.send(None)
            for process in started:
                process.wait(60)
            report(figures)
        finally:
            for process in started:
                process.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
        serve(sys.argv[2], int(task.get("index", os.environ.get("PMI_RANK", "0"))), sys.argv[3])
    else:
        main()
