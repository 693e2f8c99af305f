"""A small deterministic training in several processes.

python distributed_training.py LOG_DIR [--engine tf|mpi] [options]
"""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger, StopTraining, add_moving_summary
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_dataflow import BatchData, DataFromList, MapData, ShardData, reshard
from towerpack_inputsource import QueueInput
from towerpack_layers import BatchNorm, Dropout, FullyConnected
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig
from towerpack_trainers.distributed import (
    CollectiveCommunicator,
    DistributedTrainer,
    MPICommunicator,
    MPITrainer,
    resolve_cluster,
)

TOTAL = 12  # datapoints of one step, of all processes together
STEPS = 20


class Model(ModelDesc):
    """Two layers and momentum, with optional batch normalisation and dropout."""

    def __init__(self, plain=True, synchronized=False):
        self.plain, self.synchronized = plain, synchronized

    def inputs(self):
        return [tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        hidden = FullyConnected("fc0", x, 16, activation=tf.nn.tanh)
        if not self.plain:
            hidden = Dropout("dropout", BatchNorm("bn", hidden), rate=0.2)
        if self.synchronized:
            hidden = BatchNorm("bn0", hidden, sync_statistics=True)
            hidden = BatchNorm("bn1", tf.square(hidden), sync_statistics=True)
        answer = FullyConnected("fc1", hidden, 1)[:, 0]
        self.labels = y
        cost = tf.reduce_mean(tf.square(answer - y), name="cost")
        if self.training:
            add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


class Step(Callback):
    """Prints the progress of this process, records its data, and injects the fault of a test."""

    chief_only = False

    def __init__(self, args, rank):
        self.args, self.rank = args, rank

    def _before_train(self):
        self.first = self.global_step
        print("started", flush=True)

    def _trigger_step(self):
        args = self.args
        print(f"step {self.global_step}", flush=True)
        if args.stop and (self.rank, self.global_step) == (args.victim, args.at):
            raise StopTraining("it has seen enough")
        if self.rank != args.victim or self.first:
            return
        if args.at == self.global_step:
            if args.fail:
                raise ValueError("a mistake in the user's code")
            if args.end_of_own_data:
                raise tf.errors.OutOfRangeError(None, None, "the callback's own data has ended")
            if args.block:
                threading.Event().wait()
            if args.signal:
                os.kill(os.getpid(), getattr(signal, args.signal))


class KilledBeside(Callback):
    """Kills this process from a separate thread, so that no callback observes its steps."""

    chief_only = False

    def __init__(self, args, rank):
        self.args, self.rank = args, rank

    def _before_train(self):
        print(f"started at {self.global_step}", flush=True)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        if self.rank == self.args.victim and self.global_step == 0:
            self.thread.start()

    def watch(self):
        while not self.over.wait(0.001):
            if self.trainer.loop.global_step >= self.args.at:
                os.kill(os.getpid(), signal.SIGKILL)

    def _after_train(self):
        self.over.set()


class Trained(Callback):
    """Writes the labels of the datapoints that steps were made of, which a queue may be ahead of."""

    chief_only = False

    def __init__(self, model, path):
        self.model, self.path, self.labels = model, path, []

    def _before_run(self, context):
        return self.model.labels

    def _after_run(self, context, values):
        self.labels.append(values.results)

    def _after_train(self):
        np.save(self.path, np.concatenate(self.labels))


class Weights(Callback):
    """Writes all variables of the end, of each process."""

    chief_only = False

    def __init__(self, path):
        self.path = path

    def _after_train(self):
        values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))
        np.savez(self.path, **{name.replace("/", "|"): value for name, value in values.items()})


class Seen:
    """A map that writes down the datapoints that come out of it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, datapoint):
        number, *rest = datapoint
        with open(self.path, "a") as file:
            file.write(f"{number}\n")
        return rest


def data(args, rank, size):
    """Shuffled datapoints; each process has its shard."""
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(TOTAL * STEPS, 6)).astype(np.float32)
    ys = np.sin(xs.sum(1)).astype(np.float32)
    flow = DataFromList(list(zip(range(len(xs)), xs, ys)), shuffle=True)
    seen = Seen(args.log_dir.with_name(f"{args.log_dir.name}-seen-{os.getpid()}-{rank}"))
    if args.shard_batches:
        return ShardData(BatchData(MapData(flow, seen), TOTAL // 6), rank, size)
    return BatchData(MapData(ShardData(flow, rank, size), seen), args.total // size)


def main(arguments=None):
    """Runs the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir", type=Path)
    parser.add_argument("--engine", default="tf", choices=("tf", "mpi", "simple"))
    parser.add_argument("--max-epoch", type=int, default=2)
    parser.add_argument("--save", type=int, default=5)
    parser.add_argument("--peer-timeout", type=float, default=5.0)
    parser.add_argument("--step-timeout", type=float, default=60.0)
    parser.add_argument("--victim", type=int, default=-1)
    parser.add_argument("--at", type=int, default=-1)
    parser.add_argument("--signal")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--block", action="store_true")
    parser.add_argument("--rich", action="store_true")
    parser.add_argument("--synchronized", action="store_true", help="statistics over all processes")
    parser.add_argument("--shard-batches", action="store_true")
    parser.add_argument("--total", type=int, default=TOTAL, help="datapoints of one step")
    parser.add_argument("--allow", nargs="*", default=["world"], help="what may differ on resume")
    parser.add_argument("--unobserved", action="store_true", help="no callback acts on a step")
    parser.add_argument("--end-of-own-data", action="store_true", help="the victim's callback raises it")
    args = parser.parse_args(arguments)
    times = {"peer_timeout": args.peer_timeout, "step_timeout": args.step_timeout, "start_timeout": 90}
    communicator = None
    if args.engine == "tf":
        communicator = CollectiveCommunicator(resolve_cluster(), **times)
    elif args.engine == "mpi":
        communicator = MPICommunicator(**times)
    rank, size = (communicator.rank, communicator.size) if communicator else (0, 1)
    model = Model(plain=not args.rich, synchronized=args.synchronized)
    config = TrainConfig(
        model=model,
        # Not dataflow=: that makes a few datapoints to measure them, and `Seen` would note those, too.
        data=QueueInput(data(args, rank, size), infinite=not args.end_of_own_data),
        callbacks=[
            PeriodicTrigger(ModelSaver(), every_k_steps=args.save),
            KilledBeside(args, rank) if args.unobserved else Step(args, rank),
            Weights(args.log_dir.with_name(f"{args.log_dir.name}-rank{rank}.npz")),
            *(
                []
                if args.unobserved
                else [Trained(model, args.log_dir.with_name(f"labels-{size}-{args.total}-{rank}.npy"))]
            ),
        ],
        max_epoch=args.max_epoch,
        log_dir=args.log_dir,
        resume="auto",
        resume_allow=args.allow,
        seed=5,
    )
    if communicator is None:
        SimpleTrainer(config).train()
        return
    trainer = MPITrainer if args.engine == "mpi" else DistributedTrainer
    trainer(config, communicator, reshard=reshard if args.shard_batches else None).train()


if __name__ == "__main__":
    sys.exit(main())
