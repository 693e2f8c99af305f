"""Translate pictures into others, learnt from pairs: pix2pix.

    python image2image.py                  outlines of digits into digits
    python image2image.py --data FOLDER    files in its folders train and test: A left, B right
    python image2image.py --evaluate       how far the checkpoint's pictures are from the true ones

After Isola et al., "Image-to-image translation with conditional adversarial networks" (2017),
arXiv:1611.07004, in the layout of whose data sets FOLDER is.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from command_line import run
from evaluation import Verdict
from picture_evaluation import judge_pairs, predict
from pictures import (
    digit_pictures,
    find_pictures,
    held_out,
    keep_held_out,
    picture_options,
    picture_source,
    read_pictures,
)
from sampling import UNTRAINED, KeepUntrained
from translators import patch_discriminator, u_net

from towerpack_callbacks import ModelSaver, add_moving_summary
from towerpack_dataflow import BatchData, MapData
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer, non_saturating_costs

BATCH, ROUNDS, L1 = 16, 50, 100


class Image2Image(GANModelDesc):
    """A translator, and a discriminator that also receives the translator's input.

    Args:
        size: pixels of a side.
    """

    def __init__(self, size: int):
        self._size = size

    def inputs(self):
        shape = [None, self._size, self._size, 3]
        return [tf.TensorSpec(shape, tf.float32, name) for name in ("source", "wanted")]

    def build_graph(self, source, wanted):
        with tf.variable_scope("gen"):
            made = u_net(source)
        made = tf.identity(made, "made")
        if not self.training:
            return None
        with tf.variable_scope("discrim"):
            real_logits = patch_discriminator(tf.concat([source, wanted], -1))
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = patch_discriminator(tf.concat([source, made], -1))
        costs = non_saturating_costs(real_logits, fake_logits)
        l1 = tf.reduce_mean(tf.abs(made - wanted), name="l1")
        add_moving_summary(l1, costs.generator, costs.discriminator)
        return GANCosts(costs.generator + L1 * l1, costs.discriminator)

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(2e-4, beta1=0.5)


def outlined(digits: np.ndarray) -> np.ndarray:
    """Returns pictures with the outline of each digit on the left, and the digit on the right."""
    around = np.pad(digits, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="edge")
    neighbours = around[:, :-2, 1:-1] + around[:, 2:, 1:-1] + around[:, 1:-1, :-2] + around[:, 1:-1, 2:]
    edges = np.where(neighbours - 4 * digits < -0.1, np.float32(1), np.float32(-1))
    return np.concatenate([edges, digits], axis=2)


def load(options):
    """Returns the pairs to train with, side by side, and held-out ones as an array."""
    if options.data is None:
        train, test = digit_pictures("train", options.size), digit_pictures("test", options.size)
        return outlined(train), outlined(test)
    files, others = (find_pictures(options.data / name) for name in ("train", "test"))
    return files, read_pictures(others, (options.size, 2 * options.size))


def train(options) -> None:
    """Trains with pairs."""

    def in_order(pairs):
        halves = np.split(pairs, 2, axis=-2)
        return halves[::-1] if options.mode == "BtoA" else halves

    pairs, test = load(options)
    source, wanted = in_order(test)
    keep_held_out(options.log_dir, source=source, wanted=wanted)
    flow = MapData(
        picture_source(pairs, (options.size, 2 * options.size)), lambda datapoint: in_order(datapoint[0])
    )
    config = TrainConfig(
        model=Image2Image(options.size),
        dataflow=BatchData(flow, BATCH),
        callbacks=[KeepUntrained(), ModelSaver(keep_last=1)],
        steps_per_epoch=ROUNDS,
        max_epoch=options.epochs,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    GANTrainer(config).train()


def evaluate(log_dir) -> Verdict:
    """Translates held-out pictures."""
    pictures = held_out(log_dir)
    wanted, source = pictures["wanted"], {"source": pictures["source"]}
    model = Image2Image(wanted.shape[1])
    [made], [untrained] = (predict(model, path, source, ["made"]) for path in (log_dir, log_dir / UNTRAINED))
    return judge_pairs(made, untrained, wanted)


if __name__ == "__main__":
    options = picture_options(
        "a folder with train and test, of files with two pictures side by side", size=16
    )
    options.add_argument(
        "--mode", choices=["AtoB", "BtoA"], default="AtoB", help="the right one is made if AtoB"
    )
    run(train, evaluate, __doc__, epochs=8, parser=options)
