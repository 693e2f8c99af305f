"""A separately trained classifier of digits for the evaluation of generators.

Its features, the 64 numbers before its last layer, stand in for those of an Inception network, which would
have to be downloaded and knows nothing of digits.
"""

from pathlib import Path

import numpy as np
from digits import digit_arrays
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

SEED = 1000


class DigitClassifier:
    """Two hidden layers; 97 % of the held-out digits get their label.

    Args:
        parameters: the weights of each layer, then the biases of each layer.
    """

    def __init__(self, parameters: list[np.ndarray]) -> None:
        half = len(parameters) // 2
        self.parameters = parameters
        self._layers = list(zip(parameters[:half], parameters[half:]))

    def features(self, images: np.ndarray) -> np.ndarray:
        """Returns the activations of the last hidden layer, shape [n, 64]."""
        hidden = np.reshape(images, [len(images), -1]).astype(np.float64)
        for weights, biases in self._layers[:-1]:
            hidden = np.maximum(hidden @ weights + biases, 0)
        return hidden

    def labels(self, images: np.ndarray) -> np.ndarray:
        """Returns the most likely label of each picture."""
        weights, biases = self._layers[-1]
        found: np.ndarray = np.argmax(self.features(images) @ weights + biases, 1)
        return found


def train_classifier() -> DigitClassifier:
    """Trains a classifier on the training pictures: a second, and the same one each time."""
    images, labels = digit_arrays("train")
    network = MLPClassifier((128, 64), alpha=0.01, batch_size=64, tol=1e-3, random_state=SEED)  # pyright: ignore[reportArgumentType]
    # Products of matrices so small take longer in several threads.
    with threadpool_limits(1):
        network.fit(images.reshape(len(images), -1), labels)
    return DigitClassifier([*network.coefs_, *network.intercepts_])


def load_classifier(folder: Path) -> DigitClassifier:
    """Returns the classifier that a folder has; one without gets it, so that figures can be repeated."""
    path = Path(folder) / "digit_classifier.npz"
    if not path.exists():
        np.savez(path, *train_classifier().parameters)
    with np.load(path) as arrays:
        return DigitClassifier([arrays[name] for name in arrays.files])
