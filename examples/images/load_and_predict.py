"""Load the weights of AlexNet or VGG16 from a file of NumPy, TensorFlow or Caffe, and classify pictures.

    python load_and_predict.py      trains a narrow AlexNet on images drawn here, writes its weights to files
                                    of all three kinds, and classifies images that were held out with each
    python load_and_predict.py --load bvlc_alexnet.caffemodel --synset synset_words.txt cat.jpg dog.jpg
    python load_and_predict.py --load vgg16.npz --network vgg16 --synset synset_words.txt

`--load` accepts a `.caffemodel`, a `.npz`, a checkpoint of TensorFlow or a log directory, with the layer
names of Caffe's models. `--synset` is a file with the name of one class in each line. Without pictures, the
script classifies those of scikit-learn.
"""

import argparse
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from caffe_files import caffe_model
from classifier import Classifier, train_classifier
from drawn_images import NAMES, group_image
from plain_networks import alexnet, vgg16
from running import run
from sklearn.datasets import load_sample_images

from towerpack_callbacks.checkpoint import load_variables
from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_trainers import OfflinePredictor, PredictConfig, SmartInit

# Each network, and the height and width of its images as published.
NETWORKS = {"alexnet": (alexnet, 227), "vgg16": (vgg16, 224)}
MEAN = [103.939, 116.779, 123.68]  # of ImageNet's images, blue first, which Caffe's models subtract
DRAWN_SIZE, DRAWN_WIDTH = 99, 16


class PlainNetwork(Classifier):
    """AlexNet or VGG16, of RGB images from 0 to 255."""

    def __init__(self, network, classes, size, width):
        super().__init__(classes, size)
        self.network, self.width = network, width

    def logits(self, image):
        image = tf.cast(image[..., ::-1], tf.float32) - MEAN
        logits = self.network(image, self.classes, self.width)
        tf.nn.softmax(logits, name="probabilities")
        return logits

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=5e-4, trainable=False))


def predict(model, path, images):
    """Returns the probabilities of each class, with the weights of a file."""
    # Each variable of the network is required; a checkpoint may have others, such as an optimizer's.
    weights = SmartInit(path, allow=["unused"])
    config = PredictConfig(
        model=model, session_init=weights, input_names=["image"], output_names=["probabilities"]
    )
    with OfflinePredictor(config) as predictor:
        return predictor(images)[0]


def five_best(probabilities, names):
    """Returns the most probable classes in a line."""
    best = np.argsort(-probabilities)[:5]
    return ", ".join(f"{names[index]} {probabilities[index]:.3f}" for index in best)


def central_square(picture, size):
    """Returns the middle of a picture, resized so that its shorter side fits."""
    height, width = picture.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = picture[top : top + side, left : left + side]
    return cv2.resize(square, (size, size), interpolation=cv2.INTER_AREA)


def read_picture(path):
    """Returns the RGB picture in a file."""
    picture = cv2.imread(str(path))
    if picture is None:
        raise SystemExit(f"{path} is no picture")
    return picture[..., ::-1]


def classify(options):
    """Classifies pictures with the weights of a file, and returns the five best classes of the last one."""
    network, size = NETWORKS[options.network]
    names = options.synset.read_text().splitlines() if options.synset else [f"class {i}" for i in range(1000)]
    samples = load_sample_images()
    pictures = {path.name: read_picture(path) for path in options.pictures}
    pictures = pictures or dict(zip(map(str, samples.filenames), samples.images))
    model = PlainNetwork(network, len(names), options.size or size, options.width)
    images = np.stack([central_square(picture, model.size) for picture in pictures.values()])
    lines = [five_best(row, names) for row in predict(model, options.load, images)]
    print("\n".join(f"{Path(name).name}: {line}" for name, line in zip(pictures, lines)))
    return lines[-1]


def drawn(count, seed):
    """Returns images drawn here, and their labels."""
    rng, labels = np.random.default_rng(seed), np.arange(count) % len(NAMES)
    return np.stack([group_image(label, (DRAWN_SIZE, DRAWN_SIZE), rng) for label in labels]), labels


def write_files(log_dir):
    """Writes the weights of the latest checkpoint to a file of each kind, and returns their paths."""
    variables = load_variables(log_dir).items()
    values: dict[str, Any] = {name: value for name, value in variables if name.endswith(("/W", "/b"))}
    archive, checkpoint, caffe = (log_dir / f"alexnet{kind}" for kind in (".npz", ".ckpt", ".caffemodel"))
    np.savez(archive, **values)
    caffe.write_bytes(caffe_model(values))
    with tf.Graph().as_default(), tf.Session() as sess:
        for name, value in values.items():
            tf.get_variable(name, initializer=value)
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(checkpoint), write_meta_graph=False, latest_filename="of_saver")
    return archive, checkpoint, caffe


def train_on(folder, options):
    """Classifies pictures, after a training if no file of weights is given; returns the last line."""
    if options.load is not None:
        return classify(options)
    flow = BatchData(DataFromArrays(drawn(1000, 0)), 32)
    images, labels = drawn(200, 1)
    held_out = BatchData(DataFromArrays((images, labels), shuffle=False), 50, remainder=True)
    model = PlainNetwork(alexnet, len(NAMES), DRAWN_SIZE, DRAWN_WIDTH)
    figure = train_classifier(model, flow, held_out, options, [])
    found = []
    for path in write_files(options.log_dir):
        found.append(predict(model, path, images))
        print(f"{path.name}: {NAMES[labels[0]]} is {five_best(found[-1][0], NAMES)}")
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-6)
    return f"{figure}; the three files predict the same"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures", nargs="*", type=Path, metavar="PICTURE", help="files; two without")
    parser.add_argument("--load", type=Path, metavar="FILE", help="weights; without, a network is trained")
    parser.add_argument("--network", choices=NETWORKS, default="alexnet", help="of the weights; alexnet")
    parser.add_argument("--synset", type=Path, metavar="FILE", help="a name for each class, one a line")
    parser.add_argument("--width", type=int, default=64, help="of the network of --load; 64, as published")
    parser.add_argument("--size", type=int, help="of its images; as published if not given")
    run(train_on, __doc__, epochs=8, parser=parser)
