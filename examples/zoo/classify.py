"""Classify pictures with a network and the weights for ImageNet that torchvision publishes.

    python classify.py --network resnet50 --weights resnet50-0676ba61.pth cat.jpg coffee.jpg

The weights are files of https://download.pytorch.org/models; `--help` lists the networks. The script prints
the five most probable of the 1000 classes by number, or by name with `--synset`, a file with a name in each
line.
"""

import argparse
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from efficientnet_lite import central_square
from mobilenet_v2 import RULES as MOBILENET_V2_RULES
from mobilenet_v2 import mobilenet_v2
from mobilenet_v3 import mobilenet_v3
from mobilenet_v3 import rules as mobilenet_v3_rules
from resnet import DEPTHS, resnet
from resnet import RULES as RESNET_RULES
from vit import rules as vit_rules
from vit import vit

from towerpack_callbacks.checkpoint import load_weights
from towerpack_trainers import OfflinePredictor, PredictConfig, SmartInit

SIZE = 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# Functions of images that return logits, with the rules for their weights.
NETWORKS = {
    **{f"resnet{depth}": (partial(resnet, depth=depth), RESNET_RULES) for depth in DEPTHS},
    "mobilenet_v2": (mobilenet_v2, MOBILENET_V2_RULES),
    "mobilenet_v3_large": (partial(mobilenet_v3, variant="large"), mobilenet_v3_rules("large")),
    "mobilenet_v3_small": (partial(mobilenet_v3, variant="small"), mobilenet_v3_rules("small")),
    "vit_b_16": (vit, vit_rules()),
}


def predict(images, network, weights):
    """Returns the probabilities of the classes for RGB images, uint8 [batch, 224, 224, 3].

    Args:
        images: the images.
        network: a function of images that returns logits.
        weights: arrays by variable name.
    """

    def tower(image):
        image = (tf.cast(image, tf.float32) / 255 - MEAN) / DEVIATION
        tf.nn.softmax(network(image), name="probabilities")

    config = PredictConfig(
        tower_func=tower,
        input_signature=[tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8, "image")],
        # Each variable needs a value, and each value of the file is used.
        session_init=SmartInit(weights, allow=[]),
        output_names=["probabilities"],
    )
    with OfflinePredictor(config) as predictor:
        return predictor(images)[0]


def main(arguments=None):
    """Prints the classes of pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", nargs="+", help="image files")
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--weights", required=True, help="a state dict of torchvision")
    parser.add_argument("--synset", help="a file with the names of the classes")
    options = parser.parse_args(arguments)
    pictures = []
    for path in options.pictures:
        picture = cv2.imread(path)
        if picture is None:
            parser.error(f"{path} cannot be read as an image")
        pictures.append(central_square(picture[..., ::-1], SIZE))
    names = Path(options.synset).read_text().splitlines() if options.synset else [str(i) for i in range(1000)]
    network, rules = NETWORKS[options.network]
    found = predict(np.stack(pictures), network, load_weights(options.weights, rules))
    for path, values in zip(options.pictures, found):
        best = np.argsort(-values)[:5]
        print(f"{path}: " + ", ".join(f"{names[index]} {values[index]:.3f}" for index in best))


if __name__ == "__main__":
    main()
