"""Data without TensorFlow, in a loop of NumPy, with all annotations: workers, noise, and an exact resume.

python data_alone.py
"""

import json

import numpy as np

from towerpack_dataflow import BatchData, DataFlow, MapData, MultiProcessRunner, ProxyDataFlow
from towerpack_dataflow.datasets import Digits

Weights = np.ndarray


def noisy(datapoint: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Adds noise to an image."""
    image, label = datapoint
    return [image + rng.normal(0, 0.1, image.shape).astype(np.float32), label]


class Flattened(ProxyDataFlow):
    """Images as vectors."""

    def __len__(self) -> int:
        """Returns the number of datapoints below."""
        return len(self.ds)

    def datapoint(self, epoch: int, index: int) -> list[np.ndarray]:
        """Returns the vector of an image, and its label."""
        image, label = self.ds.datapoint(epoch, index)
        return [image.reshape(-1), label]


def make_flow(workers: int) -> DataFlow:
    """Creates batches of noisy digits; the batches do not depend on the workers."""
    digits = Flattened(MapData(Digits("train"), noisy, rng=True))
    flow = BatchData(digits, 32)
    flow.seed(7)
    return MultiProcessRunner(flow, workers) if workers else flow


def step(weights: Weights, images: np.ndarray, labels: np.ndarray, rate: float = 0.5) -> Weights:
    """Makes a step of softmax regression, and returns the new weights."""
    logits = images @ weights
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    new: Weights = weights - rate * images.T @ chances / len(labels)
    return new


def train(epochs: int, workers: int, stop_at: int) -> tuple[Weights, Weights]:
    """Trains twice: in one go, and with a stop after `stop_at` batches. Both give the same weights."""
    whole, stopped = np.zeros((64, 10)), np.zeros((64, 10))
    flow = make_flow(workers)
    for _ in range(epochs):
        for images, labels in flow:
            whole = step(whole, images, labels)

    first = make_flow(workers)
    for _, (images, labels) in zip(range(stop_at), first):
        stopped = step(stopped, images, labels)
    state = json.dumps(first.state_dict())

    second = make_flow(workers)
    second.load_state_dict(json.loads(state))
    for _ in range(epochs):
        for images, labels in second:
            stopped = step(stopped, images, labels)
    return whole, stopped


def accuracy(weights: Weights) -> float:
    """Returns the share of held-out digits with the right answer."""
    images, labels = next(iter(BatchData(Digits("test"), len(Digits("test")))))
    return float(np.mean((images.reshape(len(images), -1) @ weights).argmax(1) == labels))


def main(epochs: int = 3, workers: int = 0) -> None:
    """Trains, and prints the accuracy."""
    whole, stopped = train(epochs, workers, stop_at=17)
    print(f"accuracy {accuracy(whole):.3f}; equal after a stop: {np.array_equal(whole, stopped)}")


if __name__ == "__main__":
    main()
