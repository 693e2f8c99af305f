"""A ResNet-20 on augmented pictures, by SimpleTrainer and by Keras 3 from tf.data.

He et al., "Deep Residual Learning for Image Recognition" (2016), section 4.2, with projections where the size
changes. All pad by four pixels, cut out 32 x 32, mirror, and normalise.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import _rounds
import numpy as np
from _images_files import CLASSES, SMALL, small_pictures
from _keras_networks import Tuning
from _screen import on_screen

BATCH, EPOCHS, STEPS = _rounds.shorter(128, 8), 3, _rounds.shorter(12, 2)
PAD, BLOCKS, WIDTHS = 4, 3, (16, 32, 64)
WEIGHTS = 272_474  # that are trained
MEAN, STD = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)  # of CIFAR-10
FROM_FLOW, RESIDENT = "SimpleTrainer, from a flow", "SimpleTrainer, a batch in the graph"
ALL_THREADS = ", all threads"  # for each op, as TensorFlow has it by itself, and not one as trainers have
# XLA takes more than twice as long as either.
WAYS = [Tuning(single, jit_compile=False, whole_epochs=True) for single in (True, False)]

Run = Callable[[], tuple[float, float]]  # images a second, and milliseconds of processor time of an image


def subjects(folder: str) -> dict[str, Callable[[], Run]]:
    """Trainings that each need a separate process, and pictures from the folder."""
    ways = WAYS[: _rounds.shorter(len(WAYS))]
    keras = {f"Keras fit, tf.data, {way}": functools.partial(keras_from_tf_data, folder, way) for way in ways}
    ours = {
        f"{name}{more}": functools.partial(make, folder, bool(more))
        for name, make in {FROM_FLOW: trainer_from_flow, RESIDENT: trainer_on_resident_data}.items()
        for more in ("", ALL_THREADS)[: _rounds.shorter(2)]
    }
    return {**ours, **keras}


def measured(seconds: list[float], processor: list[float]) -> tuple[float, float]:
    """The figures without the first epoch, in which graphs are pruned and functions traced."""
    images = BATCH * STEPS * len(seconds[1:])
    return images / sum(seconds[1:]), 1e3 * sum(processor[1:]) / images


# ---- SimpleTrainer


def trainer_from_flow(folder: str, all_threads: bool) -> Run:
    """The code of a user."""
    from towerpack_dataflow import BatchData, DataFromArrays, RepeatedData
    from towerpack_dataflow.augment import AugmentImageComponent, CenterPaste, Flip, Normalize, RandomCrop

    pictures = DataFromArrays(list(small_pictures(folder, BATCH * STEPS)))
    recipe = [CenterPaste(SMALL + 2 * PAD), RandomCrop(SMALL), Flip(horiz=True), Normalize(MEAN, STD)]
    batches = BatchData(AugmentImageComponent(RepeatedData(pictures, -1), recipe), BATCH)
    return functools.partial(train, all_threads, dataflow=batches)


def trainer_on_resident_data(folder: str, all_threads: bool) -> Run:
    """The same steps on one batch, which is not fed."""
    import tensorflow.compat.v1 as tf

    from towerpack_inputsource import TensorInput

    images, labels = small_pictures(folder, BATCH)
    images = ((images - np.asarray(MEAN)) / STD).astype(np.float32)

    def tensors() -> list[Any]:
        # Not constants: TensorFlow would compute the start of the network once and for all.
        return [tf.placeholder_with_default(tf.constant(array), array.shape) for array in (images, labels)]

    return lambda: train(all_threads, data=TensorInput(tensors))


def train(all_threads: bool, **data: Any) -> tuple[float, float]:
    """Trains once, with default callbacks and monitors."""
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochTimes

    from towerpack_trainers import SimpleTrainer, TrainConfig

    watch = EpochTimes()
    with tempfile.TemporaryDirectory() as log_dir, on_screen():
        config = TrainConfig(
            model=resnet(),
            optimizer=lambda: tf.train.MomentumOptimizer(0.01, 0.9),
            callbacks=[watch],
            steps_per_epoch=STEPS,
            max_epoch=EPOCHS,
            log_dir=log_dir,
            session_config=tf.ConfigProto(allow_soft_placement=True) if all_threads else None,
            **data,
        )
        SimpleTrainer(config).train()
    return measured(watch.seconds, watch.processor)


def resnet() -> Any:
    """The network as a model."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import BatchNorm, BNReLU, Conv2D, FullyConnected, GlobalAvgPooling, argscope
    from towerpack_trainers import ModelDesc

    def norm(x: Any) -> Any:
        return BatchNorm("bn", x)

    def block(x: Any, filters: int, stride: int) -> Any:
        y = Conv2D("conv1", x, filters, 3, strides=stride, activation=BNReLU)
        y = Conv2D("conv2", y, filters, 3, activation=norm)
        if stride > 1:
            x = Conv2D("shortcut", x, filters, 1, strides=stride, activation=norm)
        return tf.nn.relu(x + y)

    class ResNet20(ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([None, SMALL, SMALL, 3], tf.float32, "image"),
                tf.TensorSpec([None], tf.int32, "label"),
            ]

        def build_graph(self, image, label):
            with argscope(Conv2D, use_bias=False):
                x = Conv2D("conv0", image, WIDTHS[0], 3, activation=BNReLU)
                for group, filters in enumerate(WIDTHS):
                    for number in range(BLOCKS):
                        with tf.variable_scope(f"group{group}/block{number}"):
                            x = block(x, filters, 2 if group and not number else 1)
            logits = FullyConnected("linear", GlobalAvgPooling("gap", x), CLASSES)
            weights = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
            assert weights == WEIGHTS, weights
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            return tf.reduce_mean(losses, name="cost")

    return ResNet20()


# ---- Keras


def keras_from_tf_data(folder: str, tuning: Tuning) -> Run:
    """`fit` on a dataset that is shuffled, augmented, batched and read ahead."""
    if tuning.single_thread:
        os.environ["TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE"] = "false"
    import keras
    import tensorflow as tf
    from _keras_epochs import epoch_times

    if tuning.single_thread:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    model = keras_resnet()
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=STEPS if tuning.whole_epochs else 1,
        jit_compile=tuning.jit_compile,
    )
    batches = tf_data(folder)

    def run() -> tuple[float, float]:
        (watch, seconds), (meter, processor) = epoch_times(), epoch_times(time.process_time)
        fitted = {"epochs": EPOCHS, "steps_per_epoch": STEPS, "callbacks": [watch, meter]}
        with on_screen():
            model.fit(batches, **fitted, verbose=0)
        return measured(seconds, processor)

    return run


def tf_data(folder: str) -> Any:
    """The same augmentation by tf.data."""
    import tensorflow as tf

    mean, scale = tf.constant(MEAN), 1 / tf.constant(STD)

    def augmented(image: Any, label: Any) -> Any:
        image = tf.image.pad_to_bounding_box(image, PAD, PAD, SMALL + 2 * PAD, SMALL + 2 * PAD)
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, (SMALL, SMALL, 3)))
        return (tf.cast(image, tf.float32) - mean) * scale, label

    return (
        tf.data.Dataset.from_tensor_slices(small_pictures(folder, BATCH * STEPS))
        .shuffle(BATCH * STEPS)
        .repeat()
        .map(augmented, tf.data.AUTOTUNE, deterministic=False)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def keras_resnet() -> Any:
    """The network as a model."""
    import keras
    from keras import layers

    def conv(x: Any, filters: int, size: int, stride: int = 1, relu: bool = True) -> Any:
        x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return layers.ReLU()(x) if relu else x

    image = keras.Input((SMALL, SMALL, 3))
    x = conv(image, WIDTHS[0], 3)
    for group, filters in enumerate(WIDTHS):
        for number in range(BLOCKS):
            stride = 2 if group and not number else 1
            y = conv(conv(x, filters, 3, stride), filters, 3, relu=False)
            x = conv(x, filters, 1, stride, relu=False) if stride > 1 else x
            x = layers.ReLU()(layers.add([x, y]))
    model = keras.Model(image, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))
    weights = sum(weight.shape.num_elements() for weight in model.trainable_weights)
    assert weights == WEIGHTS, weights
    return model
