"""Batch normalisation over all towers of all processes, against one tower with all the examples.

Two processes are played by threads, each with a TensorFlow server of its own that the tensors go through.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import BatchNorm
from towerpack_trainers import Objective, SingleDeviceBuilder, default_session_config
from towerpack_trainers.distributed import (
    Cluster,
    CollectiveCommunicator,
    SynchronousProcesses,
    broadcast_variables,
    launch,
)
from towerpack_trainers.replicate import SyncMultiGPUParameterServerBuilder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parent / "distributed_training.py"
DATA = np.random.default_rng(0).normal(3, 2, size=(12, 4)).astype(np.float32)
UPDATES = tf.GraphKeys.UPDATE_OPS


def free_addresses(size):
    """Addresses of this host that nothing listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    try:
        return [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def network(x):
    """Two layers of statistics, one after the other, whose sum over the examples is no constant."""
    start = np.random.default_rng(1).normal(size=(4, 3))
    w = tf.get_variable("w", [4, 3], initializer=tf.constant_initializer(start))
    hidden = BatchNorm("bn0", tf.nn.tanh(x @ w / 8), sync_statistics=True)
    hidden = BatchNorm("bn1", tf.square(hidden) + x[:, :3], sync_statistics=True)
    return tf.reduce_sum(hidden[:, 0] * hidden[:, 1] + hidden[:, 2] ** 3) / len(DATA)


def one_objective(x, scale=1.0):
    return Objective(scale * network(x), None, tf.train.GradientDescentOptimizer(0.1))


def two_objectives(x, scale=1.0):
    cost, variables = scale * network(x), tf.trainable_variables()
    return [
        Objective(cost, variables[:1], tf.train.GradientDescentOptimizer(0.1)),
        Objective(-cost, variables[1:], tf.train.GradientDescentOptimizer(0.01)),
    ]


def train(builder, function, batches, prepare):
    """The variables after five steps, each of which trains every objective by itself."""
    with tf.Graph().as_default():
        given = iter(batches)
        builder.build(function, lambda: [tf.constant(next(given))])
        with prepare() as sess:
            for _ in range(5):
                for update in builder.updates:
                    sess.run(update)
                sess.run(tf.get_collection(UPDATES))
            return {variable.op.name: sess.run(variable) for variable in tf.global_variables()}


def of_process(communicator, function, batches):
    """Trains in one process of several, with a tower for each batch."""
    exchange = SynchronousProcesses(communicator).gradient_exchange
    devices = [f"/cpu:{number}" for number in range(len(batches))]
    builder = SingleDeviceBuilder(exchange=exchange)
    if len(batches) > 1:
        builder = SyncMultiGPUParameterServerBuilder(devices, exchange=exchange)

    def prepare():
        start = broadcast_variables(tf.global_variables(), communicator)
        config = communicator.prepare(default_session_config(devices))
        sess = tf.Session(communicator.target, config=config)
        sess.run(tf.global_variables_initializer())
        sess.run(start)
        return sess

    values = train(builder, function, batches, prepare)
    communicator.group.barrier()
    return values


def together(function, shares):
    """The variables of each process after a training with these batches."""
    addresses = free_addresses(len(shares))

    def run(rank):
        cluster = Cluster.of(addresses, rank)
        communicator = CollectiveCommunicator(cluster, start_timeout=60, peer_timeout=60, step_timeout=60)
        with communicator.group:
            return of_process(communicator, function, shares[rank])

    with ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(run, range(len(shares))))


def alone(function, towers):
    """The variables of one tower with all examples, whose cost is the average of the towers' costs."""

    def prepare():
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        return sess

    return train(SingleDeviceBuilder(), lambda x: function(x, 1 / towers), [DATA], prepare)


def assert_close(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("function", "cuts"),
    [
        (one_objective, [6]),
        (one_objective, [1]),
        (one_objective, [12]),
        (one_objective, [2, 5, 9]),
        (two_objectives, [5]),
    ],
    ids=["equal batches", "unequal", "one empty", "two towers each", "objectives in turn"],
)
def test_two_processes_as_one_with_all_examples(function, cuts):
    batches = np.split(DATA, cuts)
    towers = len(batches)
    one, other = together(function, [batches[: towers // 2], batches[towers // 2 :]])
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert_close(one, alone(function, towers))


# ---- under the trainers, in processes of their own


def run(directory, *command):
    """Trains in a command's processes; returns its exit code and what it has printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
    )
    return done.returncode, done.stdout


def weights(directory, name, rank=0):
    with np.load(directory / f"{name}-rank{rank}.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def trained_alone(tmp_path_factory):
    """The end of the same training in one process, with twice the batch."""
    directory = tmp_path_factory.mktemp("alone")
    code, output = run(
        directory, sys.executable, SCRIPT, "alone", "--engine", "simple", "--max-epoch", 1, "--synchronized"
    )
    assert code == 0, output
    return weights(directory, "alone")


def test_a_distributed_trainer_ends_as_one_process(tmp_path, monkeypatch, trained_alone):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, str(SCRIPT), "run", "--max-epoch", "1", "--synchronized"]
    assert launch(command, 2, grace=20) == 0
    assert_close(weights(tmp_path, "run"), trained_alone)
    assert_close(weights(tmp_path, "run", 1), trained_alone)


def test_an_mpi_trainer_ends_as_one_process(tmp_path, trained_alone):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    options = ("--engine", "mpi", "--max-epoch", 1, "--synchronized")
    code, output = run(
        tmp_path,
        mpiexec or pytest.skip("there is no mpiexec"),
        "-n",
        2,
        sys.executable,
        SCRIPT,
        "run",
        *options,
    )
    assert code == 0, output
    assert_close(weights(tmp_path, "run"), trained_alone)


def test_a_stop_and_a_death_end_the_other_process(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, str(SCRIPT), "run", "--synchronized", "--victim", "1", "--at", "7"]
    assert launch([*command, "--stop"], 2, grace=20) == 0
    assert weights(tmp_path, "run")["global_step"] == 7
    capfd.readouterr()
    command[2] = "killed"
    assert launch([*command, "--signal", "SIGKILL"], 2, grace=20) != 0
    output = "".join(capfd.readouterr())
    assert re.search(r"^\[0\] .*PeerLostError: rank 1 \(", output, re.MULTILINE)
