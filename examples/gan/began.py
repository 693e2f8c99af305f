"""Generate small pictures with an autoencoder as discriminator and a balance of costs: BEGAN.

    python began.py                   pictures of handwritten digits
    python began.py --data FOLDER     pictures in FOLDER; each tenth is held out
    python began.py --evaluate        evaluate the pictures of the checkpoint

After Berthelot, Schumm and Metz, "BEGAN: Boundary equilibrium generative adversarial networks" (2017),
arXiv:1703.10717. Its measure of convergence shows the progress of the training. Without a further term, its
generator makes the same digit each time; the term that separates codes is that of Zhao, Mathieu and LeCun,
"Energy-based generative adversarial networks" (2017), arXiv:1609.03126.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import Verdict
from picture_evaluation import judge_pictures, predict
from pictures import (
    digit_pictures,
    find_pictures,
    held_out,
    keep_held_out,
    picture_options,
    picture_source,
    read_pictures,
)
from sampling import UNTRAINED, KeepUntrained, evaluation_draws

from towerpack_callbacks import ModelSaver, add_moving_summary
from towerpack_dataflow import BatchData
from towerpack_layers import Conv2D, FullyConnected, argscope, batch_flatten, random_uniform
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer

# GAMMA is the diversity of the pictures, from 0 to 1; RATE is the change of the balance in a step.
Z, BATCH, ROUNDS, GAMMA, RATE = 16, 32, 50, 0.9, 0.1
CHANNELS, APART = 16, 0.1


class BEGAN(GANModelDesc):
    """A generator, and an autoencoder trained to reconstruct real pictures better than generated ones.

    Args:
        size: pixels of a side.
    """

    def __init__(self, size: int):
        self._size = size

    def inputs(self):
        return [tf.TensorSpec([None, self._size, self._size, 3], tf.float32, "real")]

    def build_graph(self, real):
        z = random_uniform("noise", [tf.shape(real)[0], Z], -1, 1)
        z = tf.placeholder_with_default(z, [None, Z], "z")
        with tf.variable_scope("gen"):
            fake = self.decoder(z)
        tf.identity(tf.clip_by_value(fake, -1, 1), "fake")
        with tf.variable_scope("discrim"):
            real_loss, _ = self.autoencoder(real)
        with tf.variable_scope("discrim", reuse=True):
            fake_loss, code = self.autoencoder(fake)
        balance = GAMMA * real_loss - fake_loss
        measure = tf.add(real_loss, tf.abs(balance), "measure")
        if not self.training:
            return None
        with tf.variable_scope("discrim"):
            k = tf.get_variable("k", [], initializer=tf.zeros_initializer(), trainable=False)
        add_moving_summary(measure, tf.identity(k, "k"), real_loss, fake_loss)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, k.assign(tf.clip_by_value(k + RATE * balance, 0, 1)))
        return GANCosts(generator=fake_loss + APART * likeness(code), discriminator=real_loss - k * fake_loss)

    def autoencoder(self, pictures):
        """The mean absolute difference between pictures and their reconstructions, and their codes."""
        with tf.variable_scope("encoder"):
            code = self.encoder(pictures)
        with tf.variable_scope("decoder"):
            return tf.reduce_mean(tf.abs(self.decoder(code) - pictures), name="loss"), code

    def encoder(self, pictures):
        with argscope(Conv2D, activation=tf.nn.elu):
            x = Conv2D("conv0", pictures, CHANNELS, 3)
            x = Conv2D("conv1", x, 2 * CHANNELS, 3, strides=2)
            x = Conv2D("conv2", x, 3 * CHANNELS, 3, strides=2)
        return FullyConnected("code", batch_flatten(x), Z)

    def decoder(self, code):
        side = self._size // 4
        x = tf.reshape(FullyConnected("fc", code, side * side * 2 * CHANNELS), [-1, side, side, 2 * CHANNELS])
        for index in range(3):
            if index:
                x = tf.image.resize(x, [2 * int(x.shape[1])] * 2, method="nearest")
            x = Conv2D(f"conv{index}", x, CHANNELS, 3, activation=tf.nn.elu)
        return Conv2D("picture", x, 3, 3)

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5)


def likeness(codes):
    """The similarity of codes, from 0 to 1: the mean squared cosine between pairs."""
    directions = tf.nn.l2_normalize(codes, 1)
    squares = tf.square(tf.matmul(directions, directions, transpose_b=True))
    count = tf.cast(tf.shape(codes)[0], tf.float32)
    return (tf.reduce_sum(squares) - count) / (count * (count - 1))


def load(options):
    """Returns the pictures to train with, and held-out ones as an array."""
    if options.data is None:
        return [digit_pictures("train", options.size), digit_pictures("test", options.size)]
    files = find_pictures(options.data)
    test = files[::10]
    train = [path for path in files if path not in set(test)] or files
    return train, read_pictures(test, (options.size, options.size))


def train(options) -> None:
    """Trains both networks in each step, on one batch."""
    pictures, test = load(options)
    keep_held_out(options.log_dir, real=test)
    config = TrainConfig(
        model=BEGAN(options.size),
        dataflow=BatchData(picture_source(pictures, (options.size, options.size)), BATCH),
        callbacks=[KeepUntrained(), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Compares pictures of the generator with held-out ones."""
    real = held_out(log_dir)["real"]
    inputs = {"real": real, "z": evaluation_draws().uniform(-1, 1, (1000, Z)).astype(np.float32)}
    model = BEGAN(real.shape[1])
    (made, measure), (untrained, at_first) = (
        predict(model, path, inputs, ["fake", "measure"]) for path in (log_dir, log_dir / UNTRAINED)
    )
    return judge_pictures(made, untrained, real, float(at_first / measure))


if __name__ == "__main__":
    run(train, evaluate, __doc__, epochs=40, parser=picture_options("a folder of pictures", size=8))
