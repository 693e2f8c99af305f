"""Samples of generators out of checkpoints, and checkpoints of generators that are not trained yet."""

from pathlib import Path
from typing import Any

import numpy as np

from towerpack_callbacks import Callback
from towerpack_callbacks.checkpoint import load_variables, snapshot_variables
from towerpack_trainers import OfflinePredictor, PredictConfig, SaverRestore
from towerpack_trainers.gan import GANModelDesc

EVALUATION_SEED = 2026
UNTRAINED = "untrained.npz"
AVERAGE = "/ExponentialMovingAverage"


class KeepUntrained(Callback):
    """Writes the variables as they are before the training, which an evaluation compares with."""

    def _before_train(self):
        variables = [v for v in self.graph.get_collection("variables") if not v.op.name.endswith(AVERAGE)]
        values: dict[str, Any] = snapshot_variables(self.trainer.sess, variables)
        assert self.log_dir is not None
        np.savez(self.log_dir / UNTRAINED, **values)


def evaluation_draws() -> np.random.Generator:
    """Returns random numbers for an evaluation, the same ones whatever the seed of the training."""
    return np.random.default_rng(EVALUATION_SEED)


def generate(
    model: GANModelDesc, checkpoint: Path, inputs: dict[str, np.ndarray], output: str = "fake"
) -> np.ndarray:
    """Returns what a generator makes, by the averages of its weights if the checkpoint has them.

    Args:
        model: the networks; an evaluation tower needs the generator alone.
        checkpoint: a checkpoint, a log directory for its latest one, or an `.npz` of variables.
        inputs: an array for each tensor that is fed, by its name.
        output: the name of what is made.
    """
    averaged = any(name.endswith(AVERAGE) for name in load_variables(checkpoint))
    config = PredictConfig(
        model=model,
        session_init=SaverRestore(checkpoint),
        input_names=list(inputs),
        output_names=[output],
        ema=averaged,
    )
    with OfflinePredictor(config) as predict:
        made: np.ndarray = predict(*inputs.values())[0]
        return made
