"""Make handwritten digits: a deep convolutional GAN.

    python dcgan.py               train; writes to train_log/dcgan
    python dcgan.py --evaluate    how far from real digits those of the checkpoint there are

After Radford, Metz and Chintala, "Unsupervised representation learning with deep convolutional generative
adversarial networks" (2016), arXiv:1511.06434, with two remedies of later years: the discriminator's slope at
real digits is penalised (R1), and the samples are those of averaged weights.
"""

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from digits import SIZE, digit_batches
from evaluation import Verdict, judge_digits
from features import load_classifier
from networks import digit_features, digit_generator
from sampling import UNTRAINED, KeepUntrained, evaluation_draws, generate

from towerpack_callbacks import EMA, BatchVariance, CollapseAlarm, ModelSaver, SampleGrid, add_moving_summary
from towerpack_layers import FullyConnected, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANModelDesc, GANTrainer, every_k_steps, non_saturating_costs, r1_penalty

Z, BATCH, ROUNDS = 32, 64, 250


class DCGAN(GANModelDesc):
    """A generator of digits, and a discriminator between them and real ones."""

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 1], tf.float32, "real")]

    def build_graph(self, real):
        z = random_normal("noise", [tf.shape(real)[0], Z])
        z = tf.placeholder_with_default(z, [None, Z], "z")
        with tf.variable_scope("gen"):
            fake = digit_generator(z)
        fake = tf.identity(fake, "fake")
        if not self.training:
            return None
        with tf.variable_scope("discrim"):
            real_logits = self.discriminator(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = self.discriminator(fake)
            penalty = every_k_steps(4, lambda: r1_penalty(self.discriminator, real))
        costs = non_saturating_costs(real_logits, fake_logits)
        add_moving_summary(costs.generator, costs.discriminator)
        return attrs.evolve(costs, discriminator=costs.discriminator + 0.5 * penalty)

    def discriminator(self, images):
        return FullyConnected("linear", digit_features(images), 1)

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(5e-4, beta1=0.5)


def train(options) -> None:
    """Trains on the digits; pictures of samples, always of the same noise, go to `images/samples`."""
    ema = EMA(0.99, scope="gen")
    config = TrainConfig(
        model=DCGAN(),
        dataflow=digit_batches(BATCH),
        callbacks=[
            KeepUntrained(),
            ema,
            ema.applied_to(SampleGrid("fake")),
            BatchVariance("fake"),
            CollapseAlarm("fake_variance", below=0.01),
            ModelSaver(keep_last=1),
        ],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Compares digits of the generator with real ones that it has not seen."""
    z = evaluation_draws().normal(size=(2000, Z)).astype(np.float32)
    images, untrained = [generate(DCGAN(), path, {"z": z}) for path in (log_dir, log_dir / UNTRAINED)]
    return judge_digits(images, untrained, load_classifier(log_dir))


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=10)
