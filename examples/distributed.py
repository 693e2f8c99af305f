"""Train on handwritten digits in several processes, on one machine or many.

On this machine, with two processes that restart from their checkpoint if one dies:

    python -m towerpack_trainers launch --processes 2 --max-restarts 3 distributed.py

The same file runs unchanged under SLURM (`srun python distributed.py`), as a TFJob of Kubernetes, by hand
with TF_CONFIG set on each host (these three with the same TOWERPACK_TOKEN in all processes, the output of one
`openssl rand -hex 16`), and with `--mpi` under `mpiexec`.
"""

import argparse
from pathlib import Path

import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import BatchData, ShardData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import BatchNorm, Conv2D, FullyConnected, MaxPooling
from towerpack_trainers import ModelDesc, TrainConfig
from towerpack_trainers.distributed import (
    CollectiveCommunicator,
    DistributedTrainer,
    MPICommunicator,
    MPITrainer,
    resolve_cluster,
)

TOTAL_BATCH = 48


class ConvNet(ModelDesc):
    """Two stages of convolution, batch normalisation and pooling."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        hidden = tf.expand_dims(image, 3)
        for stage in range(2):
            hidden = tf.nn.relu(BatchNorm(f"bn{stage}", Conv2D(f"conv{stage}", hidden, 32, 3)))
            hidden = MaxPooling(f"pool{stage}", hidden, 2)
        logits = FullyConnected("fc", hidden, 10)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(loss, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


def make_config(rank: int, size: int, log_dir: Path, max_epoch: int) -> TrainConfig:
    """The training of one process: its shard of the data, and its part of the total batch."""
    if TOTAL_BATCH % size:
        raise SystemExit(f"{size} processes cannot share a batch of {TOTAL_BATCH} evenly.")
    train = BatchData(ShardData(Digits("train"), rank, size), TOTAL_BATCH // size)
    validation = BatchData(Digits("test"), 256, remainder=True)
    return TrainConfig(
        model=ConvNet(),
        dataflow=train,
        # Both run only in the chief.
        callbacks=[ModelSaver(), InferenceRunner(validation, ScalarStats(["cost", "accuracy"]))],
        max_epoch=max_epoch,
        # All processes use the same seed, so that they shuffle identically before they take their shards.
        seed=1,
        log_dir=log_dir,
        resume="auto",
        # The total batch is constant, so the training does not depend on the number of processes.
        resume_allow=["world"],
    )


def main() -> None:
    """Trains as one of several processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", action="store_true", help="exchange by MPI; start the script with mpiexec")
    parser.add_argument("--max-epoch", type=int, default=5)
    parser.add_argument("--log-dir", type=Path, default=Path("train_log/distributed"))
    args = parser.parse_args()
    options = args.log_dir, args.max_epoch
    if args.mpi:
        mpi = MPICommunicator()
        MPITrainer(make_config(mpi.rank, mpi.size, *options), mpi).train()
    else:
        collective = CollectiveCommunicator(resolve_cluster())
        DistributedTrainer(make_config(collective.rank, collective.size, *options), collective).train()


if __name__ == "__main__":
    main()
