"""A small deterministic training on digits, for processes that are interrupted.

python training.py LOG_DIR [--resume] [--tell STEP] [--fail INDEX]
python training.py LOG_DIR --predict FILE
"""

import argparse
import sys
import threading
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Every,
    InferenceRunner,
    MaxSaver,
    ModelSaver,
    PeriodicTrigger,
    ScalarStats,
    add_moving_summary,
)
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_dataflow import BatchData, MapData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import BatchNorm, Conv2D, Dropout, FullyConnected, MaxPooling
from towerpack_trainers import (
    ModelDesc,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    TrainConfig,
)
from towerpack_trainers.step import SpeedTrial


class Model(ModelDesc):
    """Convolution, batch normalisation, dropout; momentum."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        hidden = Conv2D("conv", tf.expand_dims(image, 3), 8, 3, activation=tf.nn.relu)
        hidden = Dropout("dropout", BatchNorm("bn", MaxPooling("pool", hidden, 2)), rate=0.3)
        logits = tf.identity(FullyConnected("fc", hidden, 10), name="logits")
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(loss, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


class BadImageError(Exception):
    """The user's own error."""


class Fail:
    """A map function that fails once it was called so often."""

    def __init__(self, after):
        self.left = after

    def __call__(self, datapoint):
        self.left -= 1
        return decode_image(datapoint, self.left >= 0)


def decode_image(datapoint, readable):
    """The user's function that a traceback must show."""
    if not readable:
        raise BadImageError("this image cannot be decoded")
    return datapoint


class Tell(Callback):
    """Prints a line when a step is done, so that a signal may come; it looks at no other step."""

    def __init__(self, step):
        self.step = step

    def step_period(self):
        return Every(steps=self.step)

    def _trigger_step(self):
        if self.global_step == self.step:
            print(f"step {self.step}", flush=True)


class Hold(Tell):
    """Continues to a step before the end."""

    def _trigger_step(self):
        if self.global_step == self.step:
            sys.stdin.read()


class Weights(Callback):
    """Keeps all variables' values of the end."""

    def _after_train(self):
        self.values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))


def configure(log_dir, callbacks=(), fail=None, **changes):
    """The training: 44 steps an epoch, a checkpoint every 10 steps."""
    digits = Digits("train") if fail is None else MapData(Digits("train"), Fail(fail))
    values = {
        "model": Model(),
        "dataflow": BatchData(digits, 32),
        "callbacks": [
            PeriodicTrigger(ModelSaver(), every_k_steps=10),
            InferenceRunner(
                BatchData(Digits("test"), 100, remainder=True), ScalarStats(["cost", "accuracy"])
            ),
            MaxSaver("validation_accuracy"),
            *callbacks,
        ],
        "steps_per_epoch": 44,
        "max_epoch": 4,
        "log_dir": log_dir,
        "seed": 3,
        **changes,
    }
    return TrainConfig(**values)


def predict(log_dir, images):
    """The predictions of the latest checkpoint for images."""
    config = PredictConfig(
        model=Model(), session_init=SaverRestore(log_dir), input_names=["image"], output_names=["logits"]
    )
    with OfflinePredictor(config) as predictor:
        return predictor(images)[0]


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--tell", type=int)
    parser.add_argument("--fail", type=int)
    parser.add_argument("--predict", type=Path)
    args = parser.parse_args()
    if args.predict is not None:
        images = next(iter(BatchData(Digits("test"), 50)))[0]
        np.save(args.predict, predict(args.log_dir, images))
        return
    callbacks = [] if args.tell is None else [Tell(args.tell), Hold(args.tell + 30)]
    if callbacks:  # whether several steps in one call are faster depends on the machine; they shall be made
        SpeedTrial.SINGLES, SpeedTrial.is_faster = 0, True
    resume = "auto" if args.resume else None
    config = configure(args.log_dir, callbacks, args.fail, resume=resume)
    try:
        SimpleTrainer(config).train()
    finally:
        print("threads:", *(thread.name for thread in threading.enumerate()), flush=True)


if __name__ == "__main__":
    main()
