"""Train a residual network on CIFAR-10, with the augmentation of fb.resnet.torch, and mixup on request.

    python cifar10_resnet.py                      drawn shapes, no file needed
    python cifar10_resnet.py --mixup --epochs 12  images and labels mixed with others of the batch
    python cifar10_resnet.py --data FOLDER -n 18 --epochs 160
                                                  110 layers, on CIFAR-10; downloads a missing archive
    python cifar10_resnet.py --data FOLDER --depth 18 --width 64 --mixup --epochs 200
                                                  18 layers in four groups, as for ImageNet

Images are padded to 40 pixels, cropped at random, mirrored, and have the mean image subtracted. After He et
al., "Identity Mappings in Deep Residual Networks" (2016), arXiv:1603.05027, and Zhang et al., "mixup: Beyond
Empirical Risk Minimization" (2018), arXiv:1710.09412.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from classifier import Classifier, train_classifier
from made_files import make_cifar10
from residual_networks import BLOCKS, cifar_resnet, resnet
from running import run

from towerpack_callbacks import ScheduledHyperParamSetter
from towerpack_dataflow import (
    AugmentImageComponent,
    BatchData,
    MapData,
    MapDataComponent,
    MultiProcessRunner,
)
from towerpack_dataflow.augment import CenterPaste, Flip, MixUp, RandomCrop
from towerpack_dataflow.datasets import Cifar10


class ResNet(Classifier):
    """Groups of blocks with pre-activation: three of n blocks, or four as for ImageNet."""

    def __init__(self, options, mean):
        super().__init__(shares=options.mixup, decay=2e-4)
        self.options, self.mean = options, mean

    def logits(self, image):
        image, options = (tf.cast(image, tf.float32) - self.mean) / 128, self.options
        if options.depth is not None:
            return resnet(image, options.depth, self.classes, preact=True, width=options.width)
        return cifar_resnet(image, options.n, self.classes)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9)


def make_flows(folder, batch, workers, mixup):
    """Creates the flows for training and evaluation, and the mean image."""
    training, test = Cifar10("train", dir=folder), Cifar10("test", dir=folder)
    mean = training.get_per_pixel_mean()
    flow = AugmentImageComponent(training, [CenterPaste(40), RandomCrop(32), Flip(horiz=True)])
    flow, held_out = BatchData(flow, batch), BatchData(test, 128, remainder=True)
    if mixup:
        flow = MapData(flow, MixUp(num_classes=10, alpha=1.0), rng=True)
        held_out = MapDataComponent(held_out, lambda labels: np.eye(10, dtype=np.float32)[labels], 1)
    return MultiProcessRunner(flow, workers), held_out, mean


def train_on(folder, options):
    """Trains on the files in a folder, and returns the figure."""
    flow, held_out, mean = make_flows(folder, options.batch, options.workers, options.mixup)
    epoch = options.epochs / 160  # of which the learning rate falls after 82 and 123
    steps = [(0, 0.1), (82 * epoch, 0.01), (123 * epoch, 0.001)]
    schedule = ScheduledHyperParamSetter("learning_rate", steps)
    return train_classifier(ResNet(options, mean), flow, held_out, options, [schedule])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=1, help="blocks in each group, for 6n + 2 layers; 1")
    parser.add_argument("--depth", type=int, choices=BLOCKS, help="layers in four groups, in place of -n")
    parser.add_argument("--width", type=int, default=16, help="channels of the first of four groups; 16")
    parser.add_argument("--batch", type=int, default=64, help="images in a step of one device; 64")
    parser.add_argument("--mixup", action="store_true", help="mix images of a batch, and their labels")
    run(train_on, __doc__, epochs=8, parser=parser, make_files=make_cifar10)
