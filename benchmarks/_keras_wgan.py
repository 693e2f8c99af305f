"""The WGAN-GP of benchmarks/gan.py in Keras 3, trained as Keras' own tutorial does it.

https://keras.io/examples/generative/wgan_gp/: a `train_step` under `fit`. All steps of the critic in a round
take the same real batch. The points between real and generated pictures are drawn from the uniform
distribution here, as in the paper; the tutorial draws them from a normal one, which costs no less.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from _screen import on_screen
from _wgan import BETA1, BETA2, EPOCHS, PENALTY, RATE, Setting


def fit(setting: Setting, jit_compile: str | bool) -> Callable[[], float]:
    """Gets ready to train with a trainer's threads; returns what trains once and gives rounds per second.

    Args:
        setting: what is trained.
        jit_compile: whether by XLA: "auto" as installed.
    """
    os.environ["TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE"] = "false"
    import tensorflow as tf
    from _keras_epochs import epoch_times

    if (os.cpu_count() or 1) <= 4:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    pictures = setting.data()

    def run() -> float:
        watch, seconds = epoch_times()
        with on_screen():
            gan = adversaries(setting, jit_compile)
            gan.fit(pictures, batch_size=setting.batch, epochs=EPOCHS, callbacks=[watch], verbose=0)
        return setting.rate(seconds)

    return run


def adversaries(setting: Setting, jit_compile: str | bool) -> Any:
    """Returns the model; its `train_step` is a round."""
    import keras
    import tensorflow as tf

    generator, critic = networks(setting)
    weights = [*generator.trainable_weights, *critic.trainable_weights]
    assert sum(np.size(each) for each in weights) == setting.weights

    class Adversaries(keras.Model):
        """Two networks with separate optimizers."""

        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = generator, critic
            self.of_generator, self.of_critic = (
                keras.optimizers.Adam(RATE, beta_1=BETA1, beta_2=BETA2) for _ in range(2)
            )

        def train_step(self, real):
            noise = (tf.shape(real)[0], setting.z)
            for _ in range(setting.d_steps):
                with tf.GradientTape() as tape:
                    fake = generator(tf.random.normal(noise), training=True)
                    difference = critic(fake, training=True) - critic(real, training=True)
                    distance = tf.reduce_mean(difference)
                    cost = distance + PENALTY * self.penalty(real, fake)
                weights = critic.trainable_variables
                self.of_critic.apply_gradients(zip(tape.gradient(cost, weights), weights))
            with tf.GradientTape() as tape:
                fake = generator(tf.random.normal(noise), training=True)
                loss = -tf.reduce_mean(critic(fake, training=True))
            weights = generator.trainable_variables
            self.of_generator.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return {"d_loss": cost, "g_loss": loss}

        def penalty(self, real, fake):
            share = tf.random.uniform((tf.shape(real)[0], 1, 1, 1))
            points = real + share * (fake - real)
            with tf.GradientTape() as tape:
                tape.watch(points)
                scores = critic(points, training=True)
            slopes = tape.gradient(scores, points)
            norms = tf.sqrt(tf.reduce_sum(slopes**2, axis=[1, 2, 3]))
            return tf.reduce_mean((norms - 1) ** 2)

    model = Adversaries()
    model.compile(jit_compile=jit_compile)
    return model


def networks(setting: Setting) -> tuple[Any, Any]:
    """Returns generator and critic, the same as those of `_wgan`."""
    return small() if setting.name == "small" else tutorial()


def small() -> tuple[Any, Any]:
    """Networks for 8 x 8 pixels."""
    import keras
    from keras import layers

    generator = [
        layers.Input((32,)),
        layers.Dense(4 * 4 * 32, use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Reshape((4, 4, 32)),
        layers.Conv2DTranspose(32, 4, 2, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(1, 3, padding="same", activation="tanh"),
    ]
    critic = [
        layers.Input((8, 8, 1)),
        layers.Conv2D(16, 3, padding="same", activation="leaky_relu"),
        layers.Conv2D(32, 4, 2, padding="same", activation="leaky_relu"),
        layers.Conv2D(64, 4, 2, padding="same", activation="leaky_relu"),
        layers.Flatten(),
        layers.Dense(128, activation="leaky_relu"),
        layers.Dense(1),
    ]
    return keras.Sequential(generator), keras.Sequential(critic)


def tutorial() -> tuple[Any, Any]:
    """The tutorial's networks, for 28 x 28 pixels."""
    import keras
    from keras import layers

    generator = [
        layers.Input((128,)),
        layers.Dense(4 * 4 * 256, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(0.2),
        layers.Reshape((4, 4, 256)),
    ]
    for filters in (128, 64, 1):
        generator += [
            layers.UpSampling2D(),
            layers.Conv2D(filters, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.LeakyReLU(0.2) if filters > 1 else layers.Activation("tanh"),
        ]
    critic = [layers.Input((28, 28, 1)), layers.ZeroPadding2D(2)]
    for index, filters in enumerate((64, 128, 256, 512)):
        critic.append(layers.Conv2D(filters, 5, 2, padding="same", activation="leaky_relu"))
        if index in (1, 2):
            critic.append(layers.Dropout(0.3))
    critic += [layers.Flatten(), layers.Dropout(0.2), layers.Dense(1)]
    return keras.Sequential([*generator, layers.Cropping2D(2)]), keras.Sequential(critic)
