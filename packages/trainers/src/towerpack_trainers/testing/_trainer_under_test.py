"""A trainer to check, in trainings that leave nothing behind."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MovingAverageSummary, RunUpdateOps

from ..base import Trainer
from ..config._train_config import TrainConfig
from ..towers._model_desc import ModelDesc
from ._expectations import EPOCHS, STEPS, expect
from ._recording_callbacks import FinalVariables
from ._small_training import SmallFlow

__all__ = ["SEED", "TrainerUnderTest", "Values", "leaves_nothing"]

SEED = 20_000

Values = dict[str, np.ndarray]


@final
@attrs.frozen
class TrainerUnderTest:
    """The trainer to check, and the configuration of its trainings."""

    make_trainer: Callable[[TrainConfig], Trainer]
    log_dir: Path
    make_model: Callable[[], ModelDesc]
    trains: bool
    repeatable: bool

    def make(self, name: str, callbacks: Sequence[Callback], **changes: Any) -> Trainer:
        """Makes a trainer with files in a directory of the given name."""
        values: dict[str, Any] = {
            "model": self.make_model(),
            "dataflow": SmallFlow(),
            "callbacks": callbacks,
            "extra_callbacks": [MovingAverageSummary(), RunUpdateOps()],
            "monitors": [],
            "steps_per_epoch": STEPS,
            "max_epoch": EPOCHS,
            "log_dir": self.log_dir / name,
            "seed": SEED,
        }
        return self.make_trainer(TrainConfig(**{**values, **changes}))

    def train(self, name: str, *callbacks: Callback, **changes: Any) -> Values:
        """Runs a training; returns the final values of the variables."""
        kept = FinalVariables()
        with leaves_nothing(f"the training {name!r}"):
            self.make(name, [*callbacks, kept], **changes).train()
        return kept.values


@contextlib.contextmanager
def leaves_nothing(what: str) -> Iterator[None]:
    """Checks that a block leaves no thread behind, and does not change TensorFlow's execution mode."""
    threads, eager = set(threading.enumerate()), tf.executing_eagerly()
    yield
    left = sorted(thread.name for thread in set(threading.enumerate()) - threads)
    expect(not left, f"{what} must leave no thread behind, received {', '.join(left)}")
    expect(tf.executing_eagerly() == eager, f"{what} must not change eager execution")
