"""Updates of DQN on CartPole: on batches drawn from a memory, and on one batch in the graph.

Imported by the process of each subject, in which TensorFlow chooses its threads. The settings are those of
`DQNTrainer.for_env`, except that an iteration has one step of each environment: acting is a small part of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import _rounds
import numpy as np
from _screen import on_screen

ENV, EPOCHS = "CartPole-v1", 4
ITERATIONS = _rounds.shorter(40, 2)  # in an epoch


def settings() -> Any:
    """The settings of the training."""
    import attrs

    from towerpack_trainers.rl import DQNSettings

    use = DQNSettings.of(ENV)
    return attrs.evolve(use, steps=use.environments)


def from_memory() -> Callable[[], float]:
    """`DQNTrainer`: updates per second, with acting."""
    from _trainer_epochs import EpochEnds

    from towerpack_trainers.rl import DQNTrainer

    use = settings()

    def run() -> float:
        watch = EpochEnds()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            options = {"log_dir": log_dir, "callbacks": [watch], "max_epoch": EPOCHS}
            steps = ITERATIONS * use.updates
            trainer = DQNTrainer.for_env(
                ENV, use, seed=0, evaluation_episodes=0, steps_per_epoch=steps, **options
            )
            trainer.train()
        return _rate(watch, use)

    return run


def held() -> Callable[[], float]:
    """The same updates by `SimpleTrainer`, all on one batch in the graph."""
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochEnds

    from towerpack_inputsource import TensorInput
    from towerpack_trainers import SimpleTrainer, TrainConfig
    from towerpack_trainers.rl import DefaultQModel, DoubleQ
    from towerpack_trainers.rl._default_agents import vector_envs
    from towerpack_trainers.rl._dqn import OffPolicyModel

    use = settings()
    model = OffPolicyModel(
        DefaultQModel.of(vector_envs(ENV, use.environments), use), DoubleQ(gamma=use.gamma)
    )
    model.data_from_trainer = False

    def batch() -> list[tf.Tensor]:
        draw = np.random.default_rng(0)
        shapes = [(use.batch_size, *spec.shape[1:]) for spec in model.inputs()]
        arrays = [draw.integers(0, 2, shape) + draw.random(shape) for shape in shapes]
        # Not constants, of which TensorFlow would compute the network once and for all.
        return [
            tf.placeholder_with_default(tf.constant(array.astype(spec.dtype.as_numpy_dtype)), shape)
            for array, spec, shape in zip(arrays, model.inputs(), shapes)
        ]

    def run() -> float:
        watch = EpochEnds()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=model,
                data=TensorInput(batch),
                callbacks=[watch],
                steps_per_epoch=ITERATIONS * use.updates,
                max_epoch=EPOCHS,
                log_dir=log_dir,
            )
            SimpleTrainer(config).train()
        return _rate(watch, use)

    return run


def _rate(ends: Any, use: Any) -> float:
    first, *_, last = ends.times
    return ITERATIONS * use.updates * (EPOCHS - 1) / (last - first)
