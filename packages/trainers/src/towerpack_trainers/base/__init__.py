"""The base classes of all trainers: steps, towers, the builder that places them, and one cost."""

from ._keras_model import KerasModel
from ._tower_trainer import (
    BuilderTrainer,
    NoOpTrainer,
    QueueInputTrainer,
    SimpleTrainer,
    SingleCostTrainer,
    TowerTrainer,
)
from ._trainer import Trainer

__all__ = [
    "BuilderTrainer",
    "KerasModel",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SingleCostTrainer",
    "TowerTrainer",
    "Trainer",
]
