"""Train a small convolutional network on CIFAR-10, or on synthetic pictures of its size.

    python cifar_convnet.py                  synthetic pictures, no file needed
    python cifar_convnet.py --data FOLDER    of cifar-10-binary.tar.gz, which is downloaded if it is missing
    python cifar_convnet.py --bfloat16       layers compute in 16 bits

Cropped and mirrored pictures, batch normalisation, dropout, and a learning rate that falls in steps.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    InferenceRunner,
    MaxSaver,
    ModelSaver,
    ScalarStats,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow import BatchData, DataFlow, DataFromArrays, MapData
from towerpack_dataflow.datasets import Cifar10
from towerpack_layers import (
    BNReLU,
    Conv2D,
    LinearWrap,
    argscope,
    l2_regularizer,
    mixed_precision,
    regularize_cost,
)
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig


class Convnet(ModelDesc):
    """Six convolutions with batch normalisation, and two fully connected layers."""

    def __init__(self, in_16_bits: bool = False):
        self.compute_dtype = tf.bfloat16 if in_16_bits else tf.float32

    def inputs(self):
        return [
            tf.TensorSpec([None, 32, 32, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.cast(image, tf.float32) / 127.5 - 1
        if self.compute_dtype == tf.float32:
            logits = self.network(image)
        else:
            with mixed_precision(self.compute_dtype):
                logits = tf.cast(self.network(image), tf.float32)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        decay = regularize_cost(".*/W", l2_regularizer(4e-4))
        cost = tf.add(tf.reduce_mean(loss), decay, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def network(self, image):
        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU):
            return (
                LinearWrap(image)
                .Conv2D("conv0", 32)
                .Conv2D("conv1", 32)
                .MaxPooling("pool0", 2)
                .Conv2D("conv2", 64)
                .Conv2D("conv3", 64)
                .MaxPooling("pool1", 2)
                .Conv2D("conv4", 128, padding="valid")
                .Conv2D("conv5", 128, padding="valid")
                .FullyConnected("fc0", 256, activation=tf.nn.relu)
                .Dropout("dropout", rate=0.5)
                .FullyConnected("linear", 10)()
            )

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=1e-3, trainable=False)
        return tf.train.AdamOptimizer(rate)


def cifar(folder: Path) -> tuple[DataFlow, DataFlow]:
    """Reads the training set and the test set; downloads the archive to the folder if it is missing."""
    return Cifar10("train", dir=folder), Cifar10("test", dir=folder)


def synthetic() -> tuple[DataFlow, DataFlow]:
    """Creates noisy pictures of ten patterns, few enough for a training of one minute."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, 8, 8, 3)).repeat(4, 1).repeat(4, 2)

    def draw(count):
        labels = rng.integers(0, 10, count).astype(np.int32)
        pictures = 0.3 * patterns[labels] + 0.7 * rng.integers(0, 256, (count, 32, 32, 3))
        return [pictures.astype(np.uint8), labels]

    return DataFromArrays(draw(2048)), DataFromArrays(draw(512), shuffle=False)


def shifted(datapoint: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Moves a picture by up to four pixels, and mirrors every second one."""
    image, label = datapoint
    top, left = rng.integers(0, 9, 2)
    image = np.pad(image, ((4, 4), (4, 4), (0, 0)), mode="reflect")[top : top + 32, left : left + 32]
    return [image[:, ::-1] if rng.integers(2) else image, label]


def train(folder: Path | None, in_16_bits: bool, batch: int, max_epoch: int) -> float:
    """Trains, and returns the best accuracy on the pictures that were held out."""
    training, held_out = cifar(folder) if folder else synthetic()
    config = TrainConfig(
        model=Convnet(in_16_bits),
        dataflow=BatchData(MapData(training, shifted, rng=True), batch),
        callbacks=[
            ModelSaver(keep_last=2),
            InferenceRunner(
                BatchData(held_out, 128, remainder=True),
                ScalarStats(["cost", "accuracy"]),
            ),
            MaxSaver("validation_accuracy"),
            ScheduledHyperParamSetter("learning_rate", [(0, 1e-3), (20, 3e-4), (30, 1e-4)]),
        ],
        max_epoch=max_epoch,
        log_dir="train_log/cifar_convnet",
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    return max(value for _, value in trainer.monitors.get_history("validation_accuracy"))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="a small network on CIFAR-10")
    parser.add_argument(
        "--data", type=Path, help="the folder of CIFAR-10's binary archive; synthetic without it"
    )
    parser.add_argument("--bfloat16", action="store_true", help="compute in 16 bits")
    parser.add_argument("--batch", type=int, default=64, help="pictures in a step")
    parser.add_argument("--epochs", type=int, default=3, help="the last epoch")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    best = train(args.data, args.bfloat16, args.batch, args.epochs)
    print(f"best validation accuracy {best:.4f}")


if __name__ == "__main__":
    main()
