"""Learn an embedding of digits in a plane, with digits of a class close together.

    python similarity.py --cost siamese   pairs: near, or a margin apart
    python similarity.py --cost cosine    pairs: in the same direction, or in another
    python similarity.py --cost triplet   nearer to one of the same digit than to another
    python similarity.py --data FOLDER    on MNIST; downloads missing files

The figure is the share of held-out digits with a nearest neighbour of the same class; a plot of the embedding
follows each epoch. After Hadsell et al., "Dimensionality Reduction by Learning an Invariant
Mapping" (2006), and Schroff et al., "FaceNet" (2015), arXiv:1503.03832.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from handwritten import read_digits
from running import run, train
from sklearn.neighbors import NearestNeighbors

from towerpack_callbacks import Inferencer, InferenceRunner, add_moving_summary
from towerpack_dataflow import BatchData, DataFromList, MapData, MultiProcessRunner
from towerpack_dataflow.viz import PALETTE_RGB, save_grid
from towerpack_layers import FullyConnected, argscope
from towerpack_trainers import ModelDesc


class Triples:
    """Adds to each digit another of the same class and one of another class, by the datapoint's numbers."""

    def __init__(self, digits):
        self.images = np.stack([image for image, _ in digits])
        self.labels = np.array([label for _, label in digits])

    def __call__(self, number, rng):
        same = self.labels == self.labels[number]
        chosen = [number, rng.choice(np.flatnonzero(same)), rng.choice(np.flatnonzero(~same))]
        return [self.images[chosen], self.labels[number]]


def siamese(anchor, like, unlike):
    """Squares of distances, and of the shortfall below a margin of 2."""
    return distance(anchor, like) ** 2 + tf.nn.relu(2 - distance(anchor, unlike)) ** 2


def cosine(anchor, like, unlike):
    """Cosines: the target is 1 within a class, and at most 0.5 between classes."""
    anchor, like, unlike = (tf.nn.l2_normalize(x, 1) for x in (anchor, like, unlike))
    near, far = tf.reduce_sum(anchor * like, 1), tf.reduce_sum(anchor * unlike, 1)
    return 1 - near + tf.nn.relu(far - 0.5)


def triplet(anchor, like, unlike):
    """The shortfall of the difference between distances below 1."""
    return tf.nn.relu(1 + distance(anchor, like) - distance(anchor, unlike))


def distance(x, y):
    """Euclidean; its gradient is finite at 0."""
    return tf.sqrt(tf.reduce_sum((x - y) ** 2, 1) + 1e-6)


COSTS = {"siamese": siamese, "cosine": cosine, "triplet": triplet}


class Embedding(ModelDesc):
    """Two hidden layers, and coordinates: two, or three for directions."""

    def __init__(self, cost, shape):
        self.cost, self.units, self.shape = COSTS[cost], 3 if cost == "cosine" else 2, shape

    def inputs(self):
        return [
            tf.TensorSpec([None, 3, *self.shape], tf.float32, "images"),
            tf.TensorSpec([None], tf.int64, "label"),
        ]

    def build_graph(self, images, label):
        anchor, like, unlike = (self.embed(images[:, number], number > 0) for number in range(3))
        tf.identity(anchor, name="embedding")
        cost = tf.reduce_mean(self.cost(anchor, like, unlike), name="cost")
        add_moving_summary(cost)
        return cost

    def embed(self, image, reuse):
        with tf.variable_scope("embed", reuse=reuse), argscope(FullyConnected, activation=tf.nn.relu):
            hidden = FullyConnected("fc1", FullyConnected("fc0", image, 128), 128)
            return FullyConnected("out", hidden, self.units, activation=None)

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


class NearestNeighbour(Inferencer):
    """Computes the share of embeddings with a nearest neighbour of their class, and plots all."""

    def __init__(self, folder, directions):
        self.folder, self.directions = folder, directions

    def _get_fetches(self):
        return ["embedding", "label"]

    def _before_inference(self):
        self.batches = []

    def _on_fetches(self, values, batch_size):
        self.batches.append(values)

    def _after_inference(self):
        places, labels = (np.concatenate(each) for each in zip(*self.batches))
        if self.directions:
            places = places / np.linalg.norm(places, axis=1, keepdims=True)
        save_grid([scatter(places[:, :2], labels)], self.folder / "embeddings.png")
        nearest = NearestNeighbors(n_neighbors=1).fit(places).kneighbors(return_distance=False)[:, 0]
        return {"neighbour_accuracy": float(np.mean(labels[nearest] == labels))}

    def produces(self):
        return ["neighbour_accuracy"]


def scatter(places, labels, size=400):
    """Returns a picture of points in the colours of their labels."""
    picture = np.full((size, size, 3), 255, np.uint8)
    low, high = places.min(0), places.max(0)
    for (x, y), label in zip(((places - low) / (high - low + 1e-9) * (size - 7)).astype(int), labels):
        picture[y : y + 7, x : x + 7] = PALETTE_RGB[7 * label + 3]
    return picture


def train_on(folder, options):
    """Trains, and returns the figure."""
    triples = Triples(read_digits(folder, "train", shuffle=False))
    flow = MapData(DataFromList(range(len(triples.labels)), shuffle=True), triples, rng=True)
    held_out = [[np.stack([image] * 3), label] for image, label in read_digits(folder, "test")]
    options.log_dir.mkdir(parents=True, exist_ok=True)
    nearest = NearestNeighbour(options.log_dir, options.cost == "cosine")
    evaluation = InferenceRunner(BatchData(DataFromList(held_out), 128, remainder=True), nearest)
    batches = MultiProcessRunner(BatchData(flow, 64), options.workers)
    monitors = train(Embedding(options.cost, triples.images.shape[1:]), batches, options, [evaluation])
    return f"nearest neighbours {monitors.get_latest('neighbour_accuracy'):.4f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cost", choices=COSTS, default="triplet", help="what is learned; triplet")
    run(train_on, __doc__, epochs=20, parser=parser)
