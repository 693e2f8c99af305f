"""Seeds the global random number generators of the process."""

from __future__ import annotations

import random
import threading
from typing import final

import numpy as np
import tensorflow.compat.v1 as tf

from ..callback import Callback, TrainerProtocol

__all__ = ["Seed"]


@final
class Seed(Callback):
    """Seeds Python's `random`, `numpy.random` and TensorFlow's generators at set-up.

    Towerpack uses separate seeds (`TrainConfig(seed=...)` of the trainers); this callback is for user code
    that draws from the global generators. Put it first. In the graph it affects only ops that are created
    afterwards: those of later callbacks, not those of a model that is already built.

    Args:
        seed: the seed.

    Raises:
        ValueError: the seed is not a whole number from 0 to 2**32 - 1, which NumPy takes.
    """

    chief_only = False

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise ValueError(f"Seed({seed!r}): expected a whole number from 0 to 2**32 - 1.")
        self._seed = seed

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        super().setup_graph(trainer)
        random.seed(self._seed)
        np.random.seed(self._seed)
        with trainer.graph.as_default():
            tf.set_random_seed(self._seed)
        # Eager execution uses a separate generator. A new thread is eager even while this one builds a graph.
        eager = threading.Thread(target=tf.set_random_seed, args=(self._seed,))
        eager.start()
        eager.join()
