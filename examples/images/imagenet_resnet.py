"""Train a residual network, or another one, on ImageNet, with the augmentation of fb.resnet.torch.

    python imagenet_resnet.py           18 narrow layers, on JPEG files of drawn shapes
    python imagenet_resnet.py --model inception_bn --rate 0.4         another network; --help lists them
    python imagenet_resnet.py --fake    random numbers as images: the figure is the rate of training
    python imagenet_resnet.py --data FOLDER --depth 50 --width 64 --size 224 --epochs 105 --workers 16
                                        the folders `train` and `val`, with a folder of images for each class;
                                        if `val` has no such folders, `--lists FOLDER` has ILSVRC12's lists

All GPUs of the host train; `--batch` is the batch of each. After Goyal et al., "Accurate, Large Minibatch
SGD: Training ImageNet in 1 Hour" (2017), arXiv:1706.02677, the learning rate is 0.1 for 256 images in a step,
after a warm-up over the first 5 of 105 epochs.
"""

import argparse
from pathlib import Path

import tensorflow.compat.v1 as tf
from branched_networks import inception_bn, shufflenet_v1, shufflenet_v2
from classifier import Classifier, train_classifier
from fbresnet import DEVIATION, MEAN, augmentors_to_evaluate, augmentors_to_train
from made_files import make_image_folders
from plain_networks import alexnet, vgg16, vgg16_normalised
from residual_networks import BLOCKS, resnet
from running import run, train

from towerpack_callbacks import (
    ClassificationError,
    EstimatedTimeLeft,
    ScheduledHyperParamSetter,
    ThroughputTracker,
)
from towerpack_dataflow import AugmentImageComponent, BatchData, FakeData, MultiProcessRunner
from towerpack_dataflow.datasets import ILSVRC12, ImageFolder
from towerpack_trainers import get_num_gpu

NETWORKS = {
    "alexnet": alexnet,
    "vgg16": vgg16,
    "vgg16_bn": vgg16_normalised,
    "inception_bn": inception_bn,
    "shufflenet_v1": shufflenet_v1,
    "shufflenet_v2": shufflenet_v2,
}


class ImageNetModel(Classifier):
    """A residual network of 18 to 152 layers, or one of `NETWORKS`."""

    def __init__(self, options, classes):
        super().__init__(classes, options.size)
        self.options = options

    def logits(self, image):
        image = (tf.cast(image, tf.float32) / 255 - MEAN) / DEVIATION
        options = self.options
        if options.model != "resnet":
            return NETWORKS[options.model](image, self.classes, options.width)
        return resnet(image, options.depth, self.classes, options.preact, options.width)

    def wrong(self, logits, label):
        found = tf.nn.in_top_k(logits, label, min(5, self.classes))
        tf.cast(tf.logical_not(found), tf.float32, name="not_among_five")
        return super().wrong(logits, label)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)


def images_of(folder, name, options):
    """Returns the flow `[image, label]` of a folder in ImageNet's layout or with a folder for each class."""
    if options.lists is not None:
        return ILSVRC12(folder, name, options.lists)
    return ImageFolder(folder / name, shuffle=name == "train")


def batches(images, augmentors, options, remainder=False):
    """Returns a flow of batches of images and labels, read and augmented by other processes."""
    flow = BatchData(AugmentImageComponent(images, augmentors), options.batch, remainder)
    return MultiProcessRunner(flow, options.workers)


def schedule(options):
    """Returns the learning rate by epoch: a linear warm-up, then steps down."""
    highest, epoch = options.rate * options.batch * max(1, get_num_gpu()) / 256, options.epochs / 105
    up = [(0, highest / 8), (5 * epoch, highest)]
    down = [(30 * epoch, 0.1 * highest), (60 * epoch, 0.01 * highest), (90 * epoch, 0.001 * highest)]
    return [
        ScheduledHyperParamSetter("learning_rate", up, interp="linear"),
        ScheduledHyperParamSetter("learning_rate", down, set_at_beginning=False),
    ]


def measure(options):
    """Trains on random numbers, and returns the figure."""
    image = [options.size, options.size, 3]
    domain = [(0, 256), (0, options.classes)]
    fake = FakeData([image, []], 64 * options.batch, False, dtype=["uint8", "int32"], domain=domain)
    throughput = ThroughputTracker(options.batch * max(1, get_num_gpu()))
    model = ImageNetModel(options, options.classes)
    monitors = train(model, BatchData(fake, options.batch), options, [throughput, *schedule(options)])
    return f"{monitors.get_latest('Throughput/samples_per_second'):.0f} images/s"


def train_on(folder, options):
    """Trains on the files in a folder, and returns the figure."""
    if options.fake:
        return measure(options)
    images = images_of(folder, "train", options)
    flow = batches(images, augmentors_to_train(options.size), options)
    held_out = images_of(folder, "val", options)
    held_out = batches(held_out, augmentors_to_evaluate(options.size), options, remainder=True)
    callbacks = [*schedule(options), EstimatedTimeLeft()]
    model = ImageNetModel(options, len(images.get_label_names()))
    five = ClassificationError("not_among_five", "validation_error_of_five")
    return train_classifier(model, flow, held_out, options, callbacks, [five])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fake", action="store_true", help="measure the speed with random numbers")
    parser.add_argument("--classes", type=int, default=1000, help="of random numbers; 1000")
    parser.add_argument("--lists", type=Path, help="the folder of ILSVRC12's val.txt, synsets.txt and so on")
    parser.add_argument("--model", choices=["resnet", *NETWORKS], default="resnet", help="network; resnet")
    parser.add_argument("--depth", type=int, choices=BLOCKS, default=18, help="layers of resnet; 18")
    parser.add_argument("--width", type=int, default=16, help="64 for a network as published; 16")
    parser.add_argument("--preact", action="store_true", help="normalise before each convolution")
    parser.add_argument("--size", type=int, default=64, help="height and width of images; 64")
    parser.add_argument("--rate", type=float, default=0.8, help="of learning, for 256 images in a step; 0.8")
    parser.add_argument("--batch", type=int, default=32, help="images in a step of one device; 32")
    run(train_on, __doc__, epochs=6, parser=parser, make_files=make_image_folders)
