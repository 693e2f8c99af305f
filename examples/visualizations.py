"""Visualize a network in TensorBoard: its kernels, their activations, and distributions of values.

    python visualizations.py
    tensorboard --logdir train_log/visualizations

"Images" has pictures of the kernels of the first layer, and of their activations for one digit;
"Distributions" has activations, weights and gradients. All are recorded once per epoch.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    DumpTensorAsImage,
    InferenceRunner,
    ScalarStats,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    image_grid,
)
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import Conv2D, FullyConnected, MaxPooling
from towerpack_trainers import ModelDesc, SimpleTrainer, SummaryGradient, TrainConfig, apply_grad_processors

LOG_DIR = Path("train_log/visualizations")


class Network(ModelDesc):
    """Two convolutional layers with summarised outputs, and a fully connected one."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        x = Conv2D("conv0", image[..., None], 16, 5, activation=tf.nn.relu)
        add_activation_summary(x)
        x = Conv2D("conv1", MaxPooling("pool0", x, 2), 32, 3, activation=tf.nn.relu)
        add_activation_summary(x)
        logits = FullyConnected("linear", x, 10)
        right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        if self.training:
            add_param_summary((".*/W", ["histogram", "rms"]))
            add_moving_summary(tf.identity(cost, name="cost"), accuracy)
        return cost

    def optimizer(self):
        return apply_grad_processors(tf.train.AdamOptimizer(2e-3), [SummaryGradient()])


def kernels_grid(kernels):
    """Shows kernels, [height, width, 1, number]: grey is zero."""
    largest = np.abs(kernels).max()
    return image_grid(kernels[:, :, 0].transpose(2, 0, 1), columns=4, value_range=(-largest, largest))


def findings_grid(outputs):
    """Shows the activations of the first image, from [images, height, width, number]: black is 0."""
    return image_grid(outputs[0].transpose(2, 0, 1), columns=4, value_range=(0, outputs[0].max() + 1e-6))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10, help="the last epoch; 10 if not given")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = TrainConfig(
        model=Network(),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[
            DumpTensorAsImage("conv0/W", "kernels", kernels_grid, scale=1),
            DumpTensorAsImage("conv0/output", "findings", findings_grid, scale=1),
            InferenceRunner(BatchData(Digits("test"), 128, remainder=True), ScalarStats("accuracy")),
        ],
        max_epoch=options.epochs,
        log_dir=LOG_DIR,
        seed=0,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    print(f"accuracy {trainer.monitors.get_latest('validation_accuracy'):.4f}")


if __name__ == "__main__":
    main()
