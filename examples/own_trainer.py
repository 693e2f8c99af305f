"""A custom trainer: a GAN, with two costs and two optimizers, on one device or on several.

    python own_trainer.py                                           one device
    python own_trainer.py --devices /cpu:0 /cpu:1 --critic-steps 3  two virtual CPU devices

The critic of a GAN takes several steps for each step of the generator, each on a new batch. A builder creates
one op for each network; the trainer defines the order of the ops. Input, devices, callbacks and checkpoints
work as for any other model.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import FullyConnected
from towerpack_trainers import (
    Builder,
    ModelDesc,
    Objective,
    SingleDeviceBuilder,
    SyncMultiGPUParameterServerBuilder,
    TowerTrainer,
    TrainConfig,
)
from towerpack_trainers.optimize import VariableAssignmentOptimizer

# ---- the trainer


class GANTrainer(TowerTrainer):
    """Trains a critic and a generator: the two objectives that `build_graph` of its model returns.

    Args:
        config: the training; one of its steps is a step of the generator.
        critic_steps: the number of critic steps before each generator step.
        devices: the device of each replica; with none or one of them, there is one replica.
    """

    def __init__(self, config: TrainConfig, critic_steps: int = 1, devices: Sequence[str] = ()) -> None:
        self.devices = list(devices)
        self.critic_steps = critic_steps
        super().__init__(config)

    def _setup(self) -> None:
        super()._setup()
        builder: Builder = SingleDeviceBuilder(seed=self.seed)
        if len(self.devices) > 1:
            builder = SyncMultiGPUParameterServerBuilder(self.devices, seed=self.seed)
        assert self.source is not None
        builder.build(self.tower_func, self.source.get_input_tensors)
        self.critic_op, self.train_op = builder.updates

    def run_step(self) -> None:
        """Runs the critic's steps, then the generator's step with the hooks of callbacks."""
        for _ in range(self.critic_steps):
            self.sess.run(self.critic_op)
        self.hooked_sess.run(self.train_op)


# ---- a model and data to try it with


class Points(ModelDesc):
    """Generates points of a plane from noise, with the distribution of the given ones: a small WGAN.

    After Arjovsky et al., "Wasserstein GAN" (2017), arXiv:1701.07875.
    """

    dtype = tf.float32

    def inputs(self) -> list[tf.TensorSpec]:
        """Points, and as much noise."""
        return [tf.TensorSpec([None, 2], self.dtype, "real"), tf.TensorSpec([None, 2], self.dtype, "noise")]

    def build_graph(self, real: tf.Tensor, noise: tf.Tensor) -> list[Objective]:
        """Adds one replica, and returns the objectives of the critic and the generator."""
        with tf.variable_scope("generator"):
            hidden = FullyConnected("fc0", noise, 32, activation=tf.nn.relu)
            fake = FullyConnected("fc1", hidden, 2)
        with tf.variable_scope("critic"):
            hidden = FullyConnected("fc0", tf.concat([real, fake], 0), 32, activation=tf.nn.relu)
            of_real, of_fake = tf.split(FullyConnected("fc1", hidden, 1), 2)
        if self.training:
            difference = tf.reduce_mean(fake, 0) - tf.reduce_mean(real, 0)
            add_moving_summary(tf.sqrt(tf.reduce_sum(tf.square(difference)), name="distance"))
        critic_cost = tf.reduce_mean(of_fake) - tf.reduce_mean(of_real)
        return [
            Objective(critic_cost, tf.trainable_variables("critic"), self.critic_optimizer),
            Objective(
                -tf.reduce_mean(of_fake), tf.trainable_variables("generator"), self.generator_optimizer
            ),
        ]

    def critic_optimizer(self) -> tf.train.Optimizer:
        """Keeps the critic's slope bounded, by bounding its weights."""
        return VariableAssignmentOptimizer(
            tf.train.RMSPropOptimizer(2e-3), lambda weight: tf.clip_by_value(weight, -0.2, 0.2)
        )

    def generator_optimizer(self) -> tf.train.Optimizer:
        """Trains the generator."""
        return tf.train.RMSPropOptimizer(2e-3)


def make_flow(batch: int, size: int = 4096, seed: int = 0) -> BatchData:
    """Batches of points around (2, -1), and of noise."""
    random = np.random.default_rng(seed)
    real = random.normal([2, -1], 0.5, size=(size, 2)).astype(np.float32)
    noise = random.normal(size=(size, 2)).astype(np.float32)
    return BatchData(DataFromList(list(zip(real, noise, strict=True)), shuffle=True), batch)


def main() -> None:
    """Trains, and prints the mean distance between generated and given points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", nargs="+", default=[], help="the device of each replica")
    parser.add_argument("--critic-steps", type=int, default=3, help="per step of the generator")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    config = TrainConfig(
        model=Points(),
        dataflow=make_flow(64),
        steps_per_epoch=200,
        max_epoch=arguments.epochs,
        log_dir=Path("train_log/own_trainer"),
    )
    trainer = GANTrainer(config, arguments.critic_steps, arguments.devices)
    trainer.train()
    print(f"distance {trainer.monitors.get_latest('distance'):.3f} after {trainer.loop.global_step} steps")


if __name__ == "__main__":
    main()
