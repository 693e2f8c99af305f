"""Find the classes of handwritten digits without their labels: InfoGAN.

    python infogan.py               train; writes to train_log/infogan
    python infogan.py --evaluate    the agreement of codes and classes of the checkpoint

A generator makes digits of noise, of a code out of ten and of two numbers; a third network, which shares its
layers with the discriminator, guesses code and numbers from the picture. After Chen et al., "InfoGAN:
Interpretable representation learning by information maximizing generative adversarial nets" (2016),
arXiv:1606.03657. Ten codes may divide the digits otherwise than into their classes, so the guess is taught
what does not matter: for a real digit it should stay the same when the digit is shifted and noise is added,
after Xie et al., "Unsupervised data augmentation for consistency training" (2020), arXiv:1904.12848.
"""

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from digits import CLASSES, SIZE, digit_batches
from evaluation import Verdict, judge_codes
from features import load_classifier
from networks import digit_features, digit_generator
from sampling import evaluation_draws, generate

from towerpack_callbacks import EMA, ModelSaver, add_moving_summary
from towerpack_layers import FullyConnected, random_normal, random_uniform
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import (
    GANModelDesc,
    GANTrainer,
    every_k_steps,
    non_saturating_costs,
    r1_penalty,
)

Z, NUMBERS, BATCH, ROUNDS = 16, 2, 64, 250


class InfoGAN(GANModelDesc):
    """A generator of digits, a discriminator, and a network that guesses the generator's code."""

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 1], tf.float32, "real")]

    def build_graph(self, real):
        count = tf.shape(real)[0]
        z = tf.placeholder_with_default(random_normal("noise", [count, Z]), [None, Z], "z")
        code = tf.cast(random_uniform("code_draw", [count], 0, CLASSES), tf.int32)
        code = tf.placeholder_with_default(code, [None], "code")
        numbers = random_uniform("number_draw", [count, NUMBERS], -1, 1)
        numbers = tf.placeholder_with_default(numbers, [None, NUMBERS], "numbers")
        with tf.variable_scope("gen"):
            fake = digit_generator(tf.concat([z, tf.one_hot(code, CLASSES), numbers], 1))
        fake = tf.identity(fake, "fake")
        if not self.training:
            return None
        with tf.variable_scope("discrim"):
            real_logits, guess_of_real, _ = self.discriminator(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits, guess, guess_of_numbers = self.discriminator(fake)
            guess_of_changed = self.discriminator(changed(real))[1]
            penalty = every_k_steps(4, lambda: r1_penalty(lambda x: self.discriminator(x)[0], real))

        of_code = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=code, logits=guess)
        code_cost = tf.reduce_mean(of_code, name="code_cost")
        number_cost = tf.reduce_mean(tf.square(guess_of_numbers - numbers), name="number_cost")
        change_cost = tf.identity(divergence(guess_of_real, guess_of_changed), "change_cost")
        add_moving_summary(code_cost, number_cost, change_cost)
        costs = non_saturating_costs(real_logits, fake_logits)
        information = code_cost + 0.5 * number_cost
        return attrs.evolve(
            costs,
            generator=costs.generator + information,
            discriminator=costs.discriminator + information + 4 * change_cost + 0.5 * penalty,
        )

    def discriminator(self, images):
        """A logit for whether pictures are real, a logit for each code, and the numbers."""
        features = digit_features(images)
        hidden = FullyConnected("guess", features, 64, activation=tf.nn.leaky_relu)
        return (
            FullyConnected("linear", features, 1),
            FullyConnected("code", hidden, CLASSES),
            FullyConnected("numbers", hidden, NUMBERS),
        )

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(5e-4, beta1=0.5)


def changed(images: tf.Tensor) -> tf.Tensor:
    """Shifts the pictures of a batch by at most one pixel, all in the same direction, and adds noise."""
    corner = tf.cast(random_uniform("shift", [2], 0, 3), tf.int32)
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=-1)
    shifted = tf.slice(padded, [0, corner[0], corner[1], 0], [-1, SIZE, SIZE, 1])
    return shifted + 0.5 * random_normal("picture_noise", tf.shape(images))


def divergence(logits: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Returns the mean Kullback-Leibler divergence from constant distributions to others."""
    logs = tf.stop_gradient(tf.nn.log_softmax(logits))
    return tf.reduce_mean(tf.reduce_sum(tf.exp(logs) * (logs - tf.nn.log_softmax(others)), 1))


def train(options) -> None:
    """Trains on the digits, without their labels."""
    config = TrainConfig(
        model=InfoGAN(),
        dataflow=digit_batches(BATCH),
        callbacks=[EMA(0.99, scope="gen"), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Makes 200 digits of each code."""
    codes = np.repeat(np.arange(CLASSES, dtype=np.int32), 200)
    draws = evaluation_draws()
    z = draws.normal(size=(len(codes), Z)).astype(np.float32)
    numbers = draws.uniform(-1, 1, size=(len(codes), NUMBERS)).astype(np.float32)
    images = generate(InfoGAN(), log_dir, {"z": z, "code": codes, "numbers": numbers})
    return judge_codes(images, codes, load_classifier(log_dir))


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=8)
