"""Generate handwritten digits of given classes: a conditional GAN.

    python conditional.py               train; writes to train_log/conditional
    python conditional.py --evaluate    the accuracy of the classes of the checkpoint's digits

After Mirza and Osindero, "Conditional generative adversarial nets" (2014), arXiv:1411.1784. The discriminator
has the label as a projection: Miyato and Koyama, "cGANs with projection discriminator" (2018),
arXiv:1802.05637.
"""

from typing import Any

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from digits import CLASSES, SIZE, digit_batches
from evaluation import Verdict, judge_labels
from features import load_classifier
from networks import digit_features, digit_generator
from sampling import evaluation_draws, generate

from towerpack_callbacks import EMA, ModelSaver, SampleGrid, add_moving_summary
from towerpack_layers import Embedding, FullyConnected, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import (
    GANModelDesc,
    GANTrainer,
    every_k_steps,
    non_saturating_costs,
    r1_penalty,
)

Z, BATCH, ROUNDS = 32, 64, 250


class ConditionalGAN(GANModelDesc):
    """A generator of digits of a given class, and a discriminator with the class as an input."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 1], tf.float32, "real"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, real, label):
        z = random_normal("noise", [tf.shape(label)[0], Z])
        z = tf.placeholder_with_default(z, [None, Z], "z")
        with tf.variable_scope("gen"):
            fake = digit_generator(tf.concat([z, tf.one_hot(label, CLASSES)], 1))
        fake = tf.identity(fake, "fake")
        if not self.training:
            return None

        def discriminator(images):
            features = digit_features(images)
            of_class = Embedding("class", label, CLASSES, features.shape[1])
            of_image = FullyConnected("linear", features, 1)
            return of_image + tf.reduce_sum(of_class * features, 1, keepdims=True)

        with tf.variable_scope("discrim"):
            real_logits = discriminator(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = discriminator(fake)
            penalty = every_k_steps(4, lambda: r1_penalty(discriminator, real))
        costs = non_saturating_costs(real_logits, fake_logits)
        add_moving_summary(costs.generator, costs.discriminator)
        return attrs.evolve(costs, discriminator=costs.discriminator + 0.5 * penalty)

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(5e-4, beta1=0.5)


def draw_noise(rng: np.random.Generator, shape) -> np.ndarray:
    """Draws the inputs of the generator."""
    noise: np.ndarray = rng.normal(size=shape).astype(np.float32)
    return noise


def train(options) -> None:
    """Trains on the digits and their labels; pictures in `images/samples` have a row for each class."""
    ema = EMA(0.99, scope="gen")
    wanted: dict[str, Any] = {"z": draw_noise, "label": np.repeat(np.arange(CLASSES), 8)}
    config = TrainConfig(
        model=ConditionalGAN(),
        dataflow=digit_batches(BATCH, with_labels=True),
        callbacks=[ema, ema.applied_to(SampleGrid("fake", wanted, rows=CLASSES)), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Generates 200 digits of each class."""
    labels = np.repeat(np.arange(CLASSES, dtype=np.int32), 200)
    z = draw_noise(evaluation_draws(), [len(labels), Z])
    images = generate(ConditionalGAN(), log_dir, {"z": z, "label": labels})
    return judge_labels(images, labels, load_classifier(log_dir))


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=10)
