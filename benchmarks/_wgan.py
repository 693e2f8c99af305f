"""The WGAN-GP of benchmarks/gan.py in this project's layers, its data, and the bare round.

Imported by the process of each subject, in which TensorFlow chooses its threads when it is first used.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import _rounds
import numpy as np
from _screen import on_screen

EPOCHS = 3
PENALTY, RATE, BETA1, BETA2 = 10.0, 2e-4, 0.5, 0.9


class Setting(NamedTuple):
    """The network, and the duration of its training.

    Attributes:
        name: of the networks, "small" or "tutorial".
        d_steps: steps of the critic in a round.
        batch: examples in a batch.
        rounds: rounds in an epoch.
    """

    name: str
    d_steps: int
    batch: int
    rounds: int

    @property
    def side(self) -> int:
        """Pixels of a side."""
        return 8 if self.name == "small" else 28

    @property
    def weights(self) -> int:
        """Trainable numbers of both networks."""
        return 108_386 if self.name == "small" else 5_207_491

    @property
    def z(self) -> int:
        """Numbers of noise for each picture."""
        return 32 if self.name == "small" else 128

    def data(self) -> np.ndarray:
        """Pictures of an epoch of Keras, which takes a batch in a round; from -1 to 1."""
        shape = (self.batch * self.rounds, self.side, self.side, 1)
        return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)

    def rate(self, seconds: list[float]) -> float:
        """Rounds per second, without the first epoch."""
        return self.rounds * (len(seconds) - 1) / sum(seconds[1:])


SMALL = [Setting("small", d_steps, 64, _rounds.shorter(100, 3)) for d_steps in (3, 5)]
TUTORIAL = Setting("tutorial", 3, _rounds.shorter(32, 2), _rounds.shorter(4, 1))


# ---- the networks


def small_generator(z):
    """Pictures of 8 x 8, as in examples/gan/networks.py."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import BNReLU, Conv2D, Conv2DTranspose, FullyConnected

    hidden = FullyConnected("fc", z, 4 * 4 * 32, use_bias=False, activation=BNReLU)
    hidden = tf.reshape(hidden, [-1, 4, 4, 32])
    hidden = Conv2DTranspose("deconv", hidden, 32, 4, strides=2, use_bias=False, activation=BNReLU)
    return Conv2D("image", hidden, 1, 3, activation=tf.tanh)


def small_critic(pictures):
    """The features of examples/gan/networks.py, and a score."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import Conv2D, FullyConnected

    x = Conv2D("conv0", pictures, 16, 3, activation=tf.nn.leaky_relu)
    x = Conv2D("conv1", x, 32, 4, strides=2, activation=tf.nn.leaky_relu)
    x = Conv2D("conv2", x, 64, 4, strides=2, activation=tf.nn.leaky_relu)
    x = FullyConnected("fc", x, 128, activation=tf.nn.leaky_relu)
    return FullyConnected("linear", x, 1)


def tutorial_generator(z):
    """Pictures of 28 x 28, as in Keras' tutorial."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import BatchNorm, Conv2D, FullyConnected

    x = FullyConnected("fc", z, 4 * 4 * 256, use_bias=False)
    x = tf.reshape(tf.nn.leaky_relu(BatchNorm("bn", x)), [-1, 4, 4, 256])
    for index, filters in enumerate((128, 64, 1)):
        x = tf.image.resize(x, [2 * int(x.shape[1])] * 2, method="nearest")
        x = BatchNorm(f"bn{index}", Conv2D(f"conv{index}", x, filters, 3, use_bias=False))
        x = tf.nn.leaky_relu(x) if filters > 1 else tf.tanh(x)
    return x[:, 2:-2, 2:-2]


def tutorial_critic(pictures):
    """The critic of Keras' tutorial."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import Conv2D, Dropout, FullyConnected

    x = tf.pad(pictures, [[0, 0], [2, 2], [2, 2], [0, 0]])
    for index, filters in enumerate((64, 128, 256, 512)):
        x = Conv2D(f"conv{index}", x, filters, 5, strides=2, activation=tf.nn.leaky_relu)
        if index in (1, 2):
            x = Dropout(x, rate=0.3)
    return FullyConnected("linear", Dropout(x, rate=0.2), 1)


NETWORKS = {"small": (small_generator, small_critic), "tutorial": (tutorial_generator, tutorial_critic)}


def costs(setting: Setting, real, reuse: bool):
    """Adds both networks to the graph; returns the costs."""
    import attrs
    import tensorflow.compat.v1 as tf

    from towerpack_layers import random_normal
    from towerpack_trainers.gan import gradient_penalty, wasserstein_costs

    generator, critic = NETWORKS[setting.name]
    z = random_normal("noise", [tf.shape(real)[0], setting.z])
    with tf.variable_scope("gen", reuse=reuse):
        fake = generator(z)
    with tf.variable_scope("discrim", reuse=reuse):
        scores = critic(real)
    with tf.variable_scope("discrim", reuse=True):
        made = wasserstein_costs(scores, critic(fake))
        penalty = gradient_penalty(critic, real, fake)
    return attrs.evolve(made, discriminator=made.discriminator + PENALTY * penalty)


# ---- the subjects


def trainer(setting: Setting, all_threads: bool = False) -> Callable[[], float]:
    """The code of a user: a flow, default callbacks, default monitors.

    Args:
        setting: what is trained.
        all_threads: give each op all threads, as TensorFlow does by itself, and not one as trainers do on
            CPUs.
    """
    import tensorflow.compat.v1 as tf
    from _trainer_epochs import EpochTimes

    from towerpack_dataflow import BatchData, DataFromArrays
    from towerpack_trainers import TrainConfig
    from towerpack_trainers.gan import GANModelDesc, GANTrainer

    class WGAN(GANModelDesc):
        def inputs(self):
            return [tf.TensorSpec([setting.batch, setting.side, setting.side, 1], tf.float32, "real")]

        def build_graph(self, real):
            return costs(setting, real, reuse=False)

        def optimizer(self):
            return tf.train.AdamOptimizer(RATE, BETA1, BETA2)

    def run() -> float:
        watch = EpochTimes()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=WGAN(),
                dataflow=BatchData(DataFromArrays([setting.data()]), setting.batch),
                callbacks=[watch],
                steps_per_epoch=setting.rounds,
                max_epoch=EPOCHS,
                log_dir=log_dir,
                session_config=tf.ConfigProto(allow_soft_placement=True) if all_threads else None,
            )
            GANTrainer(config, d_steps=setting.d_steps).train()
        return setting.rate(watch.seconds)

    return run


def bare(setting: Setting) -> Callable[[], float]:
    """The least that a round can take: one cached callable of its steps, on batches in the graph."""
    import tensorflow.compat.v1 as tf

    from towerpack_layers import TowerContext
    from towerpack_trainers import default_session_config
    from towerpack_trainers.towers._devices import configure_process

    config = default_session_config()
    configure_process(config)  # as trainers do, before anything is built
    with (
        tf.Graph().as_default(),
        tf.variable_scope("", use_resource=True),
        TowerContext("", is_training=True),
    ):
        op = _round(setting)
        weights = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
        assert weights == setting.weights, weights
        session = tf.Session(config=config)
        session.run(tf.global_variables_initializer())
        step = session.make_callable(op)

    def run() -> float:
        seconds = []
        for _ in range(EPOCHS):
            begin = time.perf_counter()
            for _ in range(setting.rounds):
                step()
            seconds.append(time.perf_counter() - begin)
        return setting.rate(seconds)

    return run


def _round(setting: Setting):
    """The ops of a round; each step reads the weights that the one before has written."""
    import tensorflow.compat.v1 as tf

    optimizers = [tf.train.AdamOptimizer(RATE, BETA1, BETA2, name=name) for name in ("of_critic", "of_gen")]
    # Gated as trainers do it, or their graph would be faster than this limit.
    gating = tf.train.Optimizer.GATE_GRAPH
    batches = np.split(setting.data(), setting.rounds)
    # Not constants, which TensorFlow would compute with beforehand.
    reals = [
        tf.placeholder_with_default(tf.constant(batches[step % len(batches)]), batches[0].shape)
        for step in range(setting.d_steps)
    ]
    op, updates = tf.no_op(), tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
    for step, real in enumerate([*reals, reals[-1]]):
        of_generator = step == setting.d_steps
        del updates[:]
        with tf.control_dependencies([op]):
            made = costs(setting, real, reuse=step > 0)
            cost = made.generator if of_generator else made.discriminator
            weights = tf.trainable_variables("gen/" if of_generator else "discrim/")
            op = optimizers[of_generator].minimize(cost, var_list=weights, gate_gradients=gating)
    # Batch statistics move with the steps of the network that has them.
    return tf.group(op, *updates)
