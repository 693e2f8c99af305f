"""Learn a mixture of 25 Gaussians on a grid, with all its modes: PacGAN.

    python mixture_grid.py               train; writes to train_log/mixture_grid
    python mixture_grid.py --evaluate    count the modes that the checkpoint there finds

A plain GAN leaves out modes: 17.3 of 25 are found in Lin et al., "PacGAN: The power of two samples in
generative adversarial networks" (2018), arXiv:1712.04086, whose data, criteria and remedy these are: the
discriminator receives two samples at once, so that it detects samples that are too similar.
"""

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import Verdict, judge_mixture
from sampling import evaluation_draws, generate

from towerpack_callbacks import ModelSaver, add_moving_summary
from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_layers import FullyConnected, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANModelDesc, GANTrainer, non_saturating_costs, r1_penalty

CENTRES = np.stack(np.meshgrid(np.arange(-4, 5, 2), np.arange(-4, 5, 2)), -1).reshape(-1, 2)
STD, PACKED, BATCH, ROUNDS = 0.05, 2, 256, 2400


class MixtureGAN(GANModelDesc):
    """Makes points of a plane.

    Args:
        rounds: the number of rounds of the training, over which noise and learning rate decrease.
    """

    def __init__(self, rounds: int = 1):
        self._rounds = rounds

    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "real")]

    def build_graph(self, real):
        z = random_normal("noise", [tf.shape(real)[0], 2])
        z = tf.placeholder_with_default(z, [None, 2], "z")
        with tf.variable_scope("gen"):
            # From the whole grid at first: modes that are left out then are seldom found again.
            fake = 4 * self.layers(z, 2, tf.nn.relu)
        fake = tf.identity(fake, "fake")
        if not self.training:
            return None
        # Noise makes each mode wide at first, so that each sample has a gradient towards a mode.
        spread = 0.5 * tf.maximum(0.0, 1 - 2 * self.progress())
        noisy = real + spread * random_normal("real_noise", tf.shape(real))
        with tf.variable_scope("discrim"):
            real_logits = self.discriminator(noisy)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = self.discriminator(fake + spread * random_normal("fake_noise", tf.shape(fake)))
            penalty = r1_penalty(self.discriminator, noisy)
        costs = non_saturating_costs(real_logits, fake_logits)
        add_moving_summary(costs.generator, costs.discriminator)
        return attrs.evolve(costs, discriminator=costs.discriminator + 0.1 * penalty)

    def discriminator(self, points):
        """One logit for each pack of points. Sines of two periods encode the exact positions of points."""
        waves = [wave(np.pi / 4 * times * points) for times in (1, 2) for wave in (tf.sin, tf.cos)]
        features = tf.concat([points / 4, *waves], 1)
        packs = tf.reshape(features, [-1, PACKED * features.shape[1]])
        return self.layers(packs, 1, tf.nn.leaky_relu)

    def layers(self, x, outputs, activation):
        for index in range(3):
            x = FullyConnected(f"fc{index}", x, 128, activation=activation)
        return FullyConnected("linear", x, outputs)

    def progress(self):
        """The completed fraction of the training, from 0 to 1."""
        return tf.cast(tf.train.get_or_create_global_step(), tf.float32) / self._rounds

    def optimizer(self):
        # Constant for half of the training, then down to nothing.
        rate = 1e-3 * tf.clip_by_value(2 - 2 * self.progress(), 1e-3, 1.0)
        return tf.train.AdamOptimizer(rate, beta1=0.5, beta2=0.99)


def draw(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws points of the mixture."""
    return (rng.choice(CENTRES, count) + STD * rng.normal(size=(count, 2))).astype(np.float32)


def train(options) -> None:
    """Trains with packs of points."""
    points = draw(np.random.default_rng(0), 100_000)
    config = TrainConfig(
        model=MixtureGAN(options.epochs * ROUNDS),
        dataflow=BatchData(DataFromArrays([points]), BATCH),
        callbacks=[ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Counts the modes among as many samples as the paper draws."""
    z = evaluation_draws().normal(size=(2500, 2)).astype(np.float32)
    return judge_mixture(generate(MixtureGAN(), log_dir, {"z": z}), CENTRES, STD)


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=10)
