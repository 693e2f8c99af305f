"""A template for a training script: the parts of most trainings, in reading order.

    python boilerplate.py --load CHECKPOINT --devices /cpu:0

The data are random: 16 numbers from 0 to 1, with the label 1 if their sum exceeds 8.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, MaxSaver, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import BatchData, FakeData, MapData
from towerpack_layers import FullyConnected
from towerpack_trainers import ModelDesc, SmartInit, SyncMultiGPUTrainer, TrainConfig

NUMBERS = 16


# ---- the data: replace it


def make_flow(datapoints, batch):
    """Makes a flow of batches, of numbers and labels."""
    flow = FakeData([[NUMBERS]], size=datapoints)
    return BatchData(MapData(flow, lambda dp: [dp[0], np.int32(dp[0].sum() > NUMBERS / 2)]), batch)


# ---- the model: replace it


class Model(ModelDesc):
    """Two fully connected layers."""

    def inputs(self):
        return [
            tf.TensorSpec([None, NUMBERS], tf.float32, "numbers"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, numbers, label):
        hidden = FullyConnected("fc0", numbers, 32, activation=tf.nn.relu)
        logits = FullyConnected("fc1", hidden, 2)
        right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
        cost = tf.identity(tf.losses.sparse_softmax_cross_entropy(label, logits), name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-2)


# ---- the training


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=5, help="the last epoch; 5 if not given")
    parser.add_argument("--load", type=Path, help="a checkpoint for the initial weights")
    parser.add_argument(
        "--devices", nargs="+", help="such as /gpu:0 /gpu:1; all GPUs, or the CPU, if not given"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = TrainConfig(
        model=Model(),
        dataflow=make_flow(6400, 32),
        callbacks=[
            ModelSaver(),
            InferenceRunner(make_flow(1000, 100), ScalarStats(["cost", "accuracy"])),
            MaxSaver("validation_accuracy"),
        ],
        max_epoch=options.epochs,
        session_init=SmartInit(options.load),
        log_dir="train_log/boilerplate",
    )
    trainer = SyncMultiGPUTrainer(config, devices=options.devices)
    trainer.train()
    print(f"accuracy {trainer.monitors.get_latest('validation_accuracy'):.4f}")


if __name__ == "__main__":
    main()
