"""Types that editors must know, and errors that they must find: an ignored line without an error is one.

`editors.py` checks this file, and nothing runs it.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import towerpack_dataflow
import towerpack_trainers
from towerpack_callbacks import InferenceRunner, ScalarStats
from towerpack_dataflow import BatchData, DataFlow
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import InputSource
from towerpack_layers import Conv2D, argscope
from towerpack_trainers import ModelDesc, OfflinePredictor, PredictConfig, SimpleTrainer, TrainConfig
from towerpack_trainers.gan import GANTrainer
from towerpack_trainers.rl import PPOTrainer


class Noise(DataFlow):
    """A flow of random numbers."""

    def __len__(self):
        return 3

    def datapoint(self, epoch, index):
        return [epoch.rng(index).normal()]


class Model(ModelDesc):
    """A model whose inputs have names."""

    def inputs(self):
        return []

    def build_graph(self, image, label):
        with argscope(Conv2D, filters=3, kernel_size=3):
            Conv2D("conv0", image, kernel=3)  # type: ignore[call-arg]
            return Conv2D("conv1", image)


def known(config: TrainConfig) -> None:
    """Holds the types of trainers, predictors, flows and callbacks."""
    trainer = SimpleTrainer(config)
    assert_type(trainer, SimpleTrainer)
    assert_type(trainer.source, InputSource)
    assert_type(GANTrainer(config), GANTrainer)
    assert_type(PPOTrainer.for_env("CartPole-v1"), PPOTrainer)
    assert_type(OfflinePredictor(PredictConfig(model=Model(), output_names=["cost"])), OfflinePredictor)
    assert_type(BatchData(Digits("train"), 32), BatchData)
    assert_type(InferenceRunner(Noise(), ScalarStats("cost")), InferenceRunner)


def found(config: TrainConfig) -> None:
    """Has mistakes."""
    SimpleTrainer("train_log")  # type: ignore[arg-type]
    TrainConfig(modle=Model())  # type: ignore[call-arg]
    BatchData(Digits("train"), batch=32)  # type: ignore[call-arg]
    print(towerpack_dataflow.NoSuchFlow)  # type: ignore[attr-defined]
    print(towerpack_trainers.NoSuchTrainer)  # type: ignore[attr-defined]
