"""Seeds the random number generators that are global to the process."""

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
    """Seeds Python's `random`, `numpy.random`, and TensorFlow's generators, when it is set up.

    What this project draws depends on seeds of its own (`TrainConfig(seed=...)` of the trainers); this is for
    what a user's code draws from generators that are global to the process. Put it first. In the graph it
    concerns the ops made after it: those of later callbacks, not those of a model that is built already.

    Args:
        seed: the seed.

    Raises:
        ValueError: it is not a whole number from 0 to 2**32 - 1, which NumPy takes.
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
        # Eager execution has a generator of its own. A new thread is eager, whatever graph this one builds.
        eager = threading.Thread(target=tf.set_random_seed, args=(self._seed,))
        eager.start()
        eager.join()
