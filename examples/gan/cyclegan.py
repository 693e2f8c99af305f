"""Translate pictures of one kind into those of another and back, without pairs: CycleGAN.

    python cyclegan.py                   white digits on black, and blue ones on yellow
    python cyclegan.py --data FOLDER     pictures in FOLDER/trainA, trainB, testA and testB
    python cyclegan.py --disco           with the costs of DiscoGAN
    python cyclegan.py --evaluate        the error of reconstructions by the checkpoint

After Zhu et al., "Unpaired image-to-image translation using cycle-consistent adversarial networks" (2017),
arXiv:1703.10593, in the layout of whose data sets FOLDER is; DiscoGAN is that of Kim et al., "Learning to
discover cross-domain relations with generative adversarial networks" (2017), arXiv:1703.05192.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import Verdict
from picture_evaluation import judge_cycle, predict
from pictures import (
    digit_pictures,
    find_pictures,
    held_out,
    keep_held_out,
    picture_options,
    picture_source,
    read_picture,
    read_pictures,
)
from sampling import UNTRAINED, KeepUntrained
from translators import patch_features, residual_translator

from towerpack_callbacks import ModelSaver, add_moving_summary
from towerpack_dataflow import BatchData, MapData
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import (
    GANCosts,
    GANModelDesc,
    GANTrainer,
    least_squares_costs,
    non_saturating_costs,
)

BATCH, ROUNDS, CYCLE = 8, 50, 10
BLUE, YELLOW = np.array([-0.8, -0.8, 0.2], np.float32), np.array([0.8, 0.7, -0.3], np.float32)


class CycleGAN(GANModelDesc):
    """Two translators between pictures A and B, and a discriminator of each kind.

    Args:
        size: pixels of a side.
    """

    def __init__(self, size: int):
        self._size = size

    def inputs(self):
        return [tf.TensorSpec([None, self._size, self._size, 3], tf.float32, name) for name in ("a", "b")]

    def build_graph(self, a, b):
        with tf.variable_scope("gen"):
            fake_b = self.translate("a_to_b", a)
            fake_a = self.translate("b_to_a", b)
        with tf.variable_scope("gen", reuse=True):
            back_a = self.translate("b_to_a", fake_b)
            back_b = self.translate("a_to_b", fake_a)
        tf.identity(fake_a, "fake_a")
        tf.identity(fake_b, "fake_b")
        cycle = tf.reduce_mean(tf.abs(back_a - a)) + tf.reduce_mean(tf.abs(back_b - b))
        cycle = tf.multiply(cycle, 0.5, "cycle_loss")
        if not self.training:
            return None
        of_a, of_b = self.judge("a", a, fake_a), self.judge("b", b, fake_b)
        adversarial = of_a.generator + of_b.generator
        add_moving_summary(cycle, of_a.discriminator, of_b.discriminator)
        weighted = CYCLE * (self.distance(back_a, a) + self.distance(back_b, b))
        return GANCosts(adversarial + weighted, of_a.discriminator + of_b.discriminator)

    def translate(self, name, pictures):
        with tf.variable_scope(name):
            return residual_translator(pictures)

    def judge(self, name, real, fake):
        outputs = []
        for pictures, reuse in ((real, False), (fake, True)):
            with tf.variable_scope("discrim", reuse=reuse), tf.variable_scope(name):
                outputs.append(patch_features(pictures))
        return self.costs(*outputs)

    def distance(self, back, pictures):
        """Returns the differences between pictures and their translations there and back."""
        return tf.reduce_mean(tf.abs(back - pictures))

    def costs(self, real, fake):
        """Returns the costs of a discriminator's features of real and generated pictures, logits last."""
        return least_squares_costs(real[-1], fake[-1])

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(5e-4, beta1=0.5)


class DiscoGAN(CycleGAN):
    """The same networks, with squared distances, and generators that match the mean of each feature, too."""

    def distance(self, back, pictures):
        return tf.reduce_mean(tf.square(back - pictures))

    def costs(self, real, fake):
        judged = non_saturating_costs(real[-1], fake[-1])
        apart = [
            tf.reduce_mean(tf.square(tf.reduce_mean(of_real, 0) - tf.reduce_mean(of_fake, 0)))
            for of_real, of_fake in zip(real[:-1], fake[:-1], strict=True)
        ]
        return GANCosts(0.1 * judged.generator + 0.9 * tf.add_n(apart), judged.discriminator)


def coloured(digits: np.ndarray) -> np.ndarray:
    """Returns white digits on black in blue on yellow."""
    ink = (digits + 1) / 2
    return ink * BLUE + (1 - ink) * YELLOW


def load(options):
    """Returns the pictures to train with, of both kinds, and held-out ones as arrays."""
    shape = (options.size, options.size)
    if options.data is None:
        # No digit is in both kinds: there are no pairs.
        train, test = digit_pictures("train", options.size), digit_pictures("test", options.size)
        return (train[::2], coloured(train[1::2])), (test[::2], coloured(test[1::2]))
    kinds = [find_pictures(options.data / name) for name in ("trainA", "trainB", "testA", "testB")]
    return kinds[:2], [read_pictures(files, shape) for files in kinds[2:]]


def unpaired(a, b, shape) -> MapData:
    """Returns a flow of the pictures A in random order, each with any of B."""

    def add(datapoint, rng):
        other = b[rng.integers(len(b))]
        return [*datapoint, other if isinstance(b, np.ndarray) else read_picture(other, shape)]

    return MapData(picture_source(a, shape), add, rng=True)


def train(options) -> None:
    """Trains with pictures of both kinds, drawn apart."""
    (a, b), (test_a, test_b) = load(options)
    keep_held_out(options.log_dir, a=test_a, b=test_b)
    config = TrainConfig(
        model=(DiscoGAN if options.disco else CycleGAN)(options.size),
        dataflow=BatchData(unpaired(a, b, (options.size, options.size)), BATCH),
        callbacks=[KeepUntrained(), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Translates held-out pictures there and back."""
    pictures = held_out(log_dir)
    a, b = pictures["a"], pictures["b"]
    model = CycleGAN(a.shape[1])
    cycle, fake_a, fake_b = predict(model, log_dir, pictures, ["cycle_loss", "fake_a", "fake_b"])
    [at_first] = predict(model, log_dir / UNTRAINED, pictures, ["cycle_loss"])
    return judge_cycle(float(cycle), float(at_first), [(a, fake_b, b), (b, fake_a, a)])


if __name__ == "__main__":
    parser = picture_options("a folder with trainA, trainB, testA, testB", size=16)
    parser.add_argument("--disco", action="store_true", help="the costs of DiscoGAN")
    run(train, evaluate, __doc__, epochs=12, parser=parser)
