"""Train a Keras model on handwritten digits behind `compile` and `fit`, by a trainer of Towerpack's.

python keras_digits.py                 on one device
python keras_digits.py --towers 2      the same model, on two devices or, without GPUs, two virtual ones
"""

import argparse
import functools
import logging

import keras
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_trainers import KerasModel, SimpleTrainer, SyncMultiGPUTrainer


def make_network():
    """Two convolutions with batch normalisation; Keras counts names, costs and averages from here."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", kernel_regularizer=keras.regularizers.L2(1e-4)),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax"),
        ],
        name="network",
    )


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="A Keras model by a trainer of Towerpack's")
    parser.add_argument("--towers", type=int, default=1, help="how many devices")
    parser.add_argument("--epochs", type=int, default=15, help="the last epoch")
    parser.add_argument("--seed", type=int, default=1, help="of the data and the initial weights")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    keras.utils.set_random_seed(args.seed)

    trainer = SimpleTrainer
    if args.towers > 1:
        trainer = functools.partial(SyncMultiGPUTrainer, devices=args.towers)
    model = KerasModel(
        make_network,
        inputs=[tf.TensorSpec([None, 8, 8], tf.float32, "image")],
        targets=[tf.TensorSpec([None], tf.int32, "label")],
        trainer=trainer,
    )
    model.compile(
        lambda: tf.train.AdamOptimizer(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    trained = model.fit(
        BatchData(Digits("train"), 32),
        validation_data=BatchData(Digits("test"), 64, remainder=True),
        callbacks=[ModelSaver()],
        max_epoch=args.epochs,
        seed=args.seed,
        log_dir="train_log/keras_digits",
    )
    print(f"accuracy {trained.monitors.get_latest('validation_accuracy'):.3f}")


if __name__ == "__main__":
    main()
