"""Train a convolutional network on SVHN's digits, with both training files mixed.

    python svhn.py                            digits of scikit-learn, in colour; no file needed
    python svhn.py --data FOLDER --epochs 70  SVHN; downloads missing files

Each step has images of both training files in a constant ratio. They are resized, cropped, and changed in
brightness and contrast.
"""

import tensorflow.compat.v1 as tf
from classifier import Classifier, train_classifier
from made_files import make_svhn
from running import run

from towerpack_callbacks import ScheduledHyperParamSetter
from towerpack_dataflow import AugmentImageComponent, BatchData, MultiProcessRunner, RandomMixData
from towerpack_dataflow.augment import Brightness, CenterCrop, Contrast, RandomCrop, Resize
from towerpack_dataflow.datasets import SVHNDigit
from towerpack_layers import BNReLU, Conv2D, LinearWrap, argscope


class Convnet(Classifier):
    """Seven convolutions."""

    def logits(self, image):
        image = tf.cast(image, tf.float32) / 128 - 1
        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=BNReLU):
            return (
                LinearWrap(image)
                .Conv2D("conv1", 24, kernel_size=5, padding="valid")
                .MaxPooling("pool1", 2, padding="same")
                .Conv2D("conv2", 32, padding="valid")
                .Conv2D("conv3", 32, padding="valid")
                .MaxPooling("pool2", 2, padding="same")
                .Conv2D("conv4", 64, padding="valid")
                .Dropout("drop", rate=0.5)
                .FullyConnected("fc0", 512, activation=tf.nn.relu)
                .FullyConnected("linear", self.classes)()
            )

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=1e-3, trainable=False)
        return tf.train.AdamOptimizer(rate, epsilon=1e-3)


def make_flows(folder, batch, workers):
    """Creates the flows for training and evaluation."""
    both = RandomMixData([SVHNDigit("train", dir=folder), SVHNDigit("extra", dir=folder)])
    augmentors = [Resize(44), RandomCrop(40), Brightness(30), Contrast((0.5, 1.5))]
    flow = BatchData(AugmentImageComponent(both, augmentors), batch)
    test = AugmentImageComponent(SVHNDigit("test", dir=folder), [Resize(44), CenterCrop(40)])
    return MultiProcessRunner(flow, workers), BatchData(test, 128, remainder=True)


def train_on(folder, options):
    """Trains on the files in a folder, and returns the figure."""
    flow, held_out = make_flows(folder, 64, options.workers)
    half = options.epochs / 2
    schedule = ScheduledHyperParamSetter("learning_rate", [(0, 1e-3), (half, 5e-4), (1.5 * half, 1e-4)])
    return train_classifier(Convnet(size=40), flow, held_out, options, [schedule])


if __name__ == "__main__":
    run(train_on, __doc__, epochs=6, make_files=make_svhn)
