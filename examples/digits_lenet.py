"""Train LeNet on handwritten digits: the whole of Towerpack in one page.

There are three ways to run it:

    python digits_lenet.py             train; writes to train_log/digits_lenet
    python digits_lenet.py --resume    resume an interrupted training
    python digits_lenet.py --load      predict some digits with the best model
"""

import argparse
import logging
import time
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    ClassificationError,
    InferenceRunner,
    MaxSaver,
    ModelSaver,
    ScalarStats,
    add_moving_summary,
    add_param_summary,
)
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import Conv2D, LinearWrap, argscope, l2_regularizer, regularize_cost
from towerpack_trainers import (
    ModelDesc,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    TrainConfig,
)

LOG_DIR = Path("train_log/digits_lenet")


class LeNet(ModelDesc):
    """Two stages of convolution and pooling, then two fully connected layers."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with argscope(Conv2D, filters=32, kernel_size=3, activation=tf.nn.relu):
            logits = (
                LinearWrap(tf.expand_dims(image, 3))
                .Conv2D("conv0")
                .MaxPooling("pool0", 2)
                .Conv2D("conv1")
                .Conv2D("conv2")
                .MaxPooling("pool1", 2)
                .FullyConnected("fc0", 512, activation=tf.nn.relu)
                .Dropout("dropout", rate=0.5)
                .FullyConnected("fc1", 10)()
            )
        tf.nn.softmax(logits, name="probabilities")
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        tf.cast(tf.logical_not(correct), tf.float32, name="incorrect_vector")

        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        decay = regularize_cost("fc.*/W", l2_regularizer(1e-5))
        cost = tf.add(tf.reduce_mean(loss), decay, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
            add_param_summary((".*/W", ["histogram", "rms"]))
        return cost

    def optimizer(self):
        # Halve the learning rate every ten epochs.
        rate = tf.train.exponential_decay(2e-3, tf.train.get_or_create_global_step(), 450, 0.5)
        return tf.train.AdamOptimizer(rate)


class Result(Callback):
    """Prints the speed and the accuracy of the training."""

    def consumes(self):
        return ["validation_accuracy"]

    def _before_train(self):
        self._first_step = self.global_step
        self._seconds = 0.0

    def _before_epoch(self):
        self._start = time.perf_counter()

    def _after_epoch(self):
        self._seconds += time.perf_counter() - self._start

    def _after_train(self):
        if not self._seconds or "validation_accuracy" not in self.trainer.monitors:
            print("no epoch was finished in this run")
            return
        accuracies = [value for _, value in self.trainer.monitors.get_history("validation_accuracy")]
        steps = self.global_step - self._first_step
        print(
            f"validation accuracy {accuracies[-1]:.4f} (best {max(accuracies):.4f}), "
            f"{steps / self._seconds:.0f} steps/s, {self._seconds:.1f} s of training steps"
        )


def train(resume: bool, max_epoch: int) -> None:
    """Trains, validating after each epoch."""
    validation = BatchData(Digits("test"), 256, remainder=True)
    config = TrainConfig(
        model=LeNet(),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[
            ModelSaver(keep_last=3),
            InferenceRunner(validation, [ScalarStats(["cost", "accuracy"]), ClassificationError()]),
            MaxSaver("validation_accuracy"),
            Result(),
        ],
        max_epoch=max_epoch,
        log_dir=LOG_DIR,
        resume="auto" if resume else None,
    )
    SimpleTrainer(config).train()


def predict() -> None:
    """Prints predictions of the best model for some held-out digits."""
    best = SaverRestore(LOG_DIR / "max-validation_accuracy")
    config = PredictConfig(
        model=LeNet(), session_init=best, input_names=["image"], output_names=["probabilities"]
    )
    images, labels = next(iter(BatchData(Digits("test", shuffle=True), 16)))
    with OfflinePredictor(config) as predictor:
        (probabilities,) = predictor(images)
    for truth, row in zip(labels, probabilities):
        guess = int(np.argmax(row))
        print(f"truth {truth}  predicted {guess}  ({row[guess]:.1%}){'' if guess == truth else '  wrong'}")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="LeNet on handwritten digits")
    parser.add_argument("--resume", action="store_true", help="resume from the latest checkpoint")
    parser.add_argument("--load", action="store_true", help="predict with the best model instead of training")
    parser.add_argument("--epochs", type=int, default=30, help="the last epoch")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if args.load:
        predict()
    else:
        train(args.resume, args.epochs)


if __name__ == "__main__":
    main()
