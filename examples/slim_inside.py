"""Train a network of tf_slim on handwritten digits, by Towerpack's trainer.

    python slim_inside.py                              one tower
    python slim_inside.py --devices /cpu:0 /cpu:1      two towers that share the network's variables

It needs tf_slim: pip install "towerpack-layers[slim]". The network is written as tf_slim has it, arg_scope,
normalisation and regularizers included; `enable_slim()` is all it takes.
"""

import argparse
import logging

import tensorflow.compat.v1 as tf
import tf_slim as slim

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import regularize_cost_from_collection
from towerpack_layers.interop import enable_slim
from towerpack_trainers import ModelDesc, SimpleTrainer, SyncMultiGPUTrainer, TrainConfig

enable_slim()


def network(image):
    """Two stages of convolutions, as in tf_slim's own examples."""
    with (
        slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            weights_regularizer=slim.l2_regularizer(1e-4),
            normalizer_fn=slim.batch_norm,
        ),
        slim.arg_scope([slim.batch_norm], decay=0.9, scale=True),
    ):
        x = slim.repeat(image, 2, slim.conv2d, 16, 3, scope="conv1")
        x = slim.max_pool2d(x, 2, scope="pool1")
        x = slim.repeat(x, 2, slim.conv2d, 32, 3, scope="conv2")
        x = slim.max_pool2d(x, 2, scope="pool2")
        x = slim.dropout(slim.fully_connected(slim.flatten(x), 64, scope="fc3"), 0.7)
        return slim.fully_connected(x, 10, activation_fn=None, normalizer_fn=None, scope="logits")


class SlimInside(ModelDesc):
    """The network with its cost."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        logits = network(tf.expand_dims(image, 3))
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.add(tf.reduce_mean(loss), regularize_cost_from_collection(), name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(2e-3)


class Result(Callback):
    """Prints the accuracy of the network."""

    def consumes(self):
        return ["validation_accuracy"]

    def _after_train(self):
        print(f"validation accuracy {self.trainer.monitors.get_latest('validation_accuracy'):.4f}")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="a network of tf_slim on handwritten digits")
    parser.add_argument("--devices", nargs="+", help="one tower on each")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    validation = BatchData(Digits("test"), 256, remainder=True)
    config = TrainConfig(
        model=SlimInside(),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[ModelSaver(), InferenceRunner(validation, ScalarStats("accuracy")), Result()],
        max_epoch=args.epochs,
        log_dir="train_log/slim_inside",
    )
    trainer = SyncMultiGPUTrainer(config, args.devices) if args.devices else SimpleTrainer(config)
    trainer.train()


if __name__ == "__main__":
    main()
