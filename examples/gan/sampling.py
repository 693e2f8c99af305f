"""Samples of generators out of checkpoints, and checkpoints of generators that are not trained yet."""

from pathlib import Path

import numpy as np

from towerpack_callbacks import Callback, averaged_variables
from towerpack_callbacks.checkpoint import load_variables, snapshot_variables
from towerpack_trainers import DictRestore, OfflinePredictor, PredictConfig
from towerpack_trainers.gan import GANModelDesc

EVALUATION_SEED = 2026
UNTRAINED = "untrained.npz"
AVERAGE = "/ExponentialMovingAverage"


class KeepUntrained(Callback):
    """Writes the variables as they are before the training, which an evaluation compares with."""

    def _before_train(self):
        variables = [v for v in self.graph.get_collection("variables") if not v.op.name.endswith(AVERAGE)]
        np.savez(self.log_dir / UNTRAINED, **snapshot_variables(self.trainer.sess, variables))


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
    values = load_variables(checkpoint)
    if any(name.endswith(AVERAGE) for name in values):
        values = averaged_variables(values)
    of_generator = f"{model.generator_scope}/"
    config = PredictConfig(
        model=model,
        session_init=DictRestore({name: v for name, v in values.items() if name.startswith(of_generator)}),
        input_names=list(inputs),
        output_names=[output],
    )
    with OfflinePredictor(config) as predict:
        return predict(*inputs.values())[0]
