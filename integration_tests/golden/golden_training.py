"""The trainings of the checkpoints in this folder: tiny, without random ops, with many stateful parts.

As a script it is one of the processes that train together: `python golden_training.py LOG_DIR [options]`.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    Callback,
    EarlyStopping,
    InferenceRunner,
    JSONWriter,
    MaxSaver,
    MergeAllSummaries,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    RunUpdateOps,
    ScalarStats,
    ScheduledHyperParamSetter,
    StopTraining,
    add_moving_summary,
)
from towerpack_callbacks.checkpoint import random_state, snapshot_variables
from towerpack_dataflow import BatchData, DataFromArrays, MapData, ShardData
from towerpack_inputsource import QueueInput
from towerpack_layers import BatchNorm, FullyConnected
from towerpack_trainers import (
    DistributedTrainer,
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
)
from towerpack_trainers.distributed import resolve_cluster

__all__ = [
    "KINDS",
    "LAST_STEP",
    "SAVED_STEP",
    "Record",
    "assert_ends_as",
    "assert_same_bits",
    "configure",
    "load_arrays",
    "same_bits",
    "save_arrays",
    "trainer_of",
]

TOTAL, STEPS_PER_EPOCH, EPOCHS = 8, 5, 3  # datapoints of one step, of all towers together
SAVED_STEP, LAST_STEP = 7, STEPS_PER_EPOCH * EPOCHS
TWO = ["/cpu:0", "/cpu:1"]

# By kind: the number of towers, each with a batch, and the optimizer.
KINDS = {
    "single": (1, tf.train.AdamOptimizer),
    "towers": (2, lambda rate: tf.train.MomentumOptimizer(rate, 0.9)),
    "replicated": (2, tf.train.AdamOptimizer),
    "processes": (2, lambda rate: tf.train.MomentumOptimizer(rate, 0.9)),
}


def steady(*shape):
    """Numbers that are the same everywhere, as multiples of 1/32: initial values, and data."""
    count = int(np.prod(shape))
    return (np.arange(count) * 37 % 101 / 32 - 1.5).reshape(shape).astype(np.float32)


class Model(ModelDesc):
    """Two layers with batch normalisation between them."""

    def __init__(self, kind):
        self.make_optimizer = KINDS[kind][1]
        self.taken = []  # the inputs of each training tower

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        if self.training:
            self.taken.append([x, y])
        x = FullyConnected("fc0", x, 6, tf.nn.tanh, kernel_initializer=tf.constant_initializer(steady(4, 6)))
        x = BatchNorm("bn", x)
        answer = FullyConnected("fc1", x, 1, kernel_initializer=tf.constant_initializer(steady(6, 1)))
        cost = tf.reduce_mean(tf.square(answer[:, 0] - y), name="cost")
        if self.training:
            add_moving_summary(cost)
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", [], initializer=tf.constant_initializer(0.1), trainable=False)
        return self.make_optimizer(rate)


class Record(Callback):
    """Notes how a process begins, which data it takes first, and how it ends."""

    chief_only = False

    def __init__(self, model):
        self.model = model
        self.first_taken = self.first_step = None

    def _before_train(self):
        loop = self.trainer.loop
        self.begins_at = (loop.starting_epoch, loop.starting_step, loop.global_step)
        self.begin = self._variables()
        self.begin_state = json.loads(json.dumps(self.trainer.state_dict()))

    def _before_run(self, context):
        if self.first_taken is None:
            self.begin_random = random_state()
        return self.model.taken

    def _after_run(self, context, values):
        if self.first_taken is None:
            self.first_taken = values.results

    def _trigger_step(self):
        if self.first_step is None:
            self.first_step = self.trainer.state_dict()["loop"]

    def _after_train(self):
        self.end = self._variables()

    def _variables(self):
        return snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))


class StopAt(Callback):
    """Stops the training when a step is done, as somebody's Ctrl-C may."""

    chief_only = False

    def __init__(self, step):
        self.step = step

    def _trigger_step(self):
        if self.global_step == self.step:
            raise StopTraining("it has seen enough")


def jitter(datapoint, rng):
    """Adds noise, of bits that NumPy promises."""
    x, y = datapoint
    return [x + np.float32(int(rng.bit_generator.random_raw()) % 64) / np.float32(256), y]


def data(batch_size, rank=0, size=1):
    """Shuffled datapoints with noise; each process has its shard."""
    xs = steady(TOTAL * STEPS_PER_EPOCH, 4)
    noisy = MapData(DataFromArrays([xs, xs.sum(1) / 4]), jitter, rng=True)
    return BatchData(ShardData(noisy, rank, size), batch_size)


def configure(kind, log_dir, rank=0, size=1, stop_at=None, **changes):
    """A training of a kind, and the `Record` of it."""
    towers = 1 if kind == "processes" else KINDS[kind][0]
    model = Model(kind)
    record = Record(model)
    held_out = DataFromArrays([steady(21, 4)[::-1], steady(21)], shuffle=False)
    values = {
        "model": model,
        # Not dataflow=, which measures the duration of datapoints before it chooses an input.
        "data": QueueInput(data(TOTAL // (towers * size), rank, size)),
        "callbacks": [
            record,
            ScheduledHyperParamSetter("learning_rate", [(0, 0.0625), (6, 0.03), (11, 0.01)], step_based=True),
            EMA(0.9),
            InferenceRunner(BatchData(held_out, 7), ScalarStats("cost")),
            MinSaver("validation_cost"),
            MaxSaver("validation_cost"),
            EarlyStopping("validation_cost", patience=50),
            PeriodicTrigger(ModelSaver(), every_k_steps=SAVED_STEP),
            *([] if stop_at is None else [StopAt(stop_at)]),
        ],
        "extra_callbacks": [MovingAverageSummary(), MergeAllSummaries(), RunUpdateOps()],
        "monitors": [JSONWriter()],
        "steps_per_epoch": STEPS_PER_EPOCH,
        "max_epoch": EPOCHS,
        "log_dir": log_dir,
        "seed": 20_170,
        **changes,
    }
    return TrainConfig(**values), record


def trainer_of(kind, config, cluster=None):
    """The trainer of a kind."""
    if kind == "single":
        return SimpleTrainer(config)
    if kind == "towers":
        return SyncMultiGPUTrainerParameterServer(config, TWO)
    if kind == "replicated":
        return SyncMultiGPUTrainerReplicated(config, TWO)
    return DistributedTrainer(config, cluster)


def assert_same_bits(arrays, others):
    """Two dictionaries of arrays are one: names, dtypes, shapes, and each bit."""
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        other = others[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape), name
        assert array.tobytes() == other.tobytes(), f"{name}: {array} instead of {other}"


def assert_ends_as(whole, others, golden_is_ours):
    """Runs resumed from a golden checkpoint end alike, and like an uninterrupted run on this machine.

    Where this machine comes to other bits before the golden step, they do so but for rounding.
    """
    for other in others:
        assert_same_bits(others[0], other)
        assert whole.keys() == other.keys()
        for name in whole:
            np.testing.assert_allclose(other[name], whole[name], rtol=1e-3, atol=1e-4, err_msg=name)
        if golden_is_ours:
            assert_same_bits(whole, other)


def same_bits(arrays, others):
    """Whether two dictionaries of arrays are one."""
    try:
        assert_same_bits(arrays, others)
    except AssertionError:
        return False
    return True


def save_arrays(path, arrays):
    """Writes arrays by name, whichever the names are."""
    np.savez(path, **{name.replace("/", "|"): array for name, array in arrays.items()})


def load_arrays(path):
    """The arrays written by `save_arrays`."""
    with np.load(path) as archive:
        return {name.replace("|", "/"): array for name, array in archive.items()}


def main():
    """Trains in this process and its peers, and writes the record of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir", type=Path)
    parser.add_argument("--stop-at", type=int)
    parser.add_argument("--resume")
    args = parser.parse_args()
    cluster = resolve_cluster()
    size = {"rank": cluster.rank, "size": cluster.size}
    config, record = configure("processes", args.log_dir, **size, stop_at=args.stop_at, resume=args.resume)
    trainer_of("processes", config, cluster).train()
    (taken,) = record.first_taken
    recorded = {"begin": record.begin, "end": record.end, "taken": dict(zip("xy", taken))}
    for what, arrays in recorded.items():
        save_arrays(args.log_dir.with_name(f"{args.log_dir.name}-{what}-{cluster.rank}.npz"), arrays)


if __name__ == "__main__":
    sys.exit(main())
