"""Train a small convolutional network for pictures of 32 x 32 in colour, on all GPUs of this host.

    python cifar_multi_gpu.py                              all GPUs, or the CPU of a host without GPUs
    python cifar_multi_gpu.py --devices /cpu:0 /cpu:1      two virtual CPU devices
    python cifar_multi_gpu.py --trainer replicated         another way to train on several devices

The pictures are enlarged handwritten digits in a random colour on a background of another colour: they have
the size of CIFAR's pictures and need no download. The trainer alone decides between one device and several.
"""

import argparse
import logging

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, MaxSaver, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import BatchData, MapData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import BNReLU, Conv2D, LinearWrap, argscope, l2_regularizer, regularize_cost
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    ModelDesc,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
)

TRAINERS = {
    "sync": SyncMultiGPUTrainer,
    "parameter-server": SyncMultiGPUTrainerParameterServer,
    "replicated": SyncMultiGPUTrainerReplicated,
    "async": AsyncMultiGPUTrainer,
}


def in_colour(datapoint: list[np.ndarray]) -> list[np.ndarray]:
    """Converts a digit of 8 x 8 to a picture of 32 x 32 x 3, with colours derived from its pixels."""
    digit, label = datapoint
    rng = np.random.default_rng(int(np.sum(digit * np.arange(64).reshape(8, 8)) * 1000))
    ink, paper = rng.uniform(0.6, 1.0, 3), rng.uniform(0.0, 0.4, 3)
    strength = np.kron(digit, np.ones((4, 4)))[..., None]
    return [(strength * ink + (1 - strength) * paper).astype(np.float32), label]


class Convnet(ModelDesc):
    """Six convolutions with batch normalisation."""

    def inputs(self):
        return [
            tf.TensorSpec([None, 32, 32, 3], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU):
            logits = (
                LinearWrap(image - 0.5)
                .Conv2D("conv0", 16, strides=2)
                .Conv2D("conv1", 16)
                .MaxPooling("pool0", 2)
                .Conv2D("conv2", 32)
                .Conv2D("conv3", 32)
                .MaxPooling("pool1", 2)
                .Conv2D("conv4", 64)
                .Conv2D("conv5", 64)
                .GlobalAvgPooling("gap")
                .FullyConnected("fc", 10)()
            )
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        decay = regularize_cost(".*/W", l2_regularizer(1e-4))
        cost = tf.add(tf.reduce_mean(loss), decay, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)


def train(trainer: str, devices: list[str] | None, max_epoch: int) -> float:
    """Trains, and returns the best accuracy on the held-out digits."""
    flow = BatchData(MapData(Digits("train"), in_colour), 32)  # a batch for each device
    held_out = BatchData(MapData(Digits("test"), in_colour), 128, remainder=True)
    config = TrainConfig(
        model=Convnet(),
        dataflow=flow,
        callbacks=[
            ModelSaver(keep_last=2),
            InferenceRunner(held_out, ScalarStats(["cost", "accuracy"])),
            MaxSaver("validation_accuracy"),
        ],
        max_epoch=max_epoch,
        log_dir="train_log/cifar_multi_gpu",
    )
    running = TRAINERS[trainer](config, devices=devices)
    running.train()
    best: float = max(value for _, value in running.monitors.get_history("validation_accuracy"))
    return best


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="a small network for pictures in colour, on several devices")
    parser.add_argument("--trainer", choices=TRAINERS, default="sync")
    parser.add_argument("--devices", nargs="+", help="one per replica; by default all GPUs of this host")
    parser.add_argument("--epochs", type=int, default=8, help="the last epoch")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"best validation accuracy {train(args.trainer, args.devices, args.epochs):.4f}")


if __name__ == "__main__":
    main()
