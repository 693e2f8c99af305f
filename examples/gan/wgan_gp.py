"""Generate handwritten digits with a critic that receives new digits in each step: WGAN-GP.

    python wgan_gp.py               train; writes to train_log/wgan_gp
    python wgan_gp.py --evaluate    how far from real digits those of the checkpoint there are

After Gulrajani et al., "Improved training of Wasserstein GANs" (2017), arXiv:1704.00028: the critic makes
several steps for each one of the generator. Each step takes a new batch, as in the paper's algorithm 1.
"""

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from digits import digit_batches
from evaluation import Verdict, judge_digits
from features import load_classifier
from networks import digit_features, digit_generator
from sampling import UNTRAINED, KeepUntrained, evaluation_draws, generate

from towerpack_callbacks import EMA, ModelSaver, add_moving_summary
from towerpack_layers import FullyConnected, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANModelDesc, GANTrainer, gradient_penalty, wasserstein_costs

Z, BATCH, CRITIC_STEPS, ROUNDS = 32, 64, 3, 50


class WGAN(GANModelDesc):
    """A generator of digits, and a critic that estimates how far they are from real ones."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8, 1], tf.float32, "real")]

    def build_graph(self, real):
        z = random_normal("noise", [tf.shape(real)[0], Z])
        z = tf.placeholder_with_default(z, [None, Z], "z")
        with tf.variable_scope("gen"):
            fake = digit_generator(z)
        fake = tf.identity(fake, "fake")
        if not self.training:
            return None
        with tf.variable_scope("discrim"):
            real_scores = self.critic(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_scores = self.critic(fake)
            penalty = tf.identity(gradient_penalty(self.critic, real, fake), "penalty")
        costs = wasserstein_costs(real_scores, fake_scores)
        distance = tf.negative(costs.discriminator, "wasserstein_distance")
        add_moving_summary(distance, penalty)
        return attrs.evolve(costs, discriminator=costs.discriminator + 10 * penalty)

    def critic(self, images):
        return FullyConnected("linear", digit_features(images), 1)

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5, beta2=0.9)


def train(options) -> None:
    """Trains on the digits."""
    config = TrainConfig(
        model=WGAN(),
        dataflow=digit_batches(BATCH),
        callbacks=[KeepUntrained(), EMA(0.99, scope="gen"), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config, d_steps=CRITIC_STEPS).train()


def evaluate(log_dir) -> Verdict:
    """Compares digits of the generator with real ones that it has not seen."""
    z = evaluation_draws().normal(size=(2000, Z)).astype(np.float32)
    images, untrained = [generate(WGAN(), path, {"z": z}) for path in (log_dir, log_dir / UNTRAINED)]
    return judge_digits(images, untrained, load_classifier(log_dir))


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=30)
