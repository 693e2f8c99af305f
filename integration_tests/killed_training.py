"""A training with all that has a state or draws at random, for a process that is killed again and again.

python killed_training.py LOG_DIR [--each-step | --gan | --ppo]

It resumes by itself, prints lines with the number of the step, and ends after STEPS steps. With --each-step a
callback looks at each of them; without, steps run several in one session call, and a thread looks from aside.
With --gan, two networks train, in rounds of three steps; with --ppo, an agent acts in eight CartPoles.
"""

import sys
import threading
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    Callback,
    InferenceRunner,
    MaxSaver,
    ModelSaver,
    PeriodicTrigger,
    SampleGrid,
    ScalarStats,
    ScheduledHyperParamSetter,
    add_moving_summary,
)
from towerpack_dataflow import BatchData, MapData, MultiProcessRunner
from towerpack_dataflow.datasets import Digits
from towerpack_layers import BatchNorm, Conv2D, Dropout, FullyConnected, MaxPooling, random_normal
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig
from towerpack_trainers.gan import GANModelDesc, GANTrainer, non_saturating_costs
from towerpack_trainers.step import SpeedTrial

EPOCHS, STEPS_PER_EPOCH = 6, 20
FUSED_STEPS_PER_EPOCH = 60
STEPS = EPOCHS * STEPS_PER_EPOCH


class Model(ModelDesc):
    """Convolution, batch normalisation, dropout; momentum, and a learning rate that is set by steps."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        hidden = Conv2D("conv", tf.expand_dims(image, 3), 8, 3, activation=tf.nn.relu)
        hidden = Dropout("dropout", BatchNorm("bn", MaxPooling("pool", hidden, 2)), rate=0.3)
        logits = FullyConnected("fc", hidden, 10)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        cost = tf.reduce_mean(loss, name="cost")
        if self.training:
            add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", [], initializer=tf.constant_initializer(0.1), trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9)


def augment(datapoint, rng):
    """Shifts the image by a pixel at most and adds noise."""
    image, label = datapoint
    shifted = np.roll(image, rng.integers(-1, 2, size=2), axis=(0, 1))
    return [(shifted + rng.normal(0, 0.1, size=image.shape)).astype(np.float32), label]


class Networks(GANModelDesc):
    """Batch normalisation and Adam in both networks, and noise."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        noise = random_normal("noise", [tf.shape(image)[0], 8])
        z = tf.placeholder_with_default(noise, [None, 8], "z")
        with tf.variable_scope("gen"):
            hidden = tf.nn.relu(BatchNorm("bn", FullyConnected("fc0", z, 32)))
            fake = FullyConnected("fc1", hidden, 64, activation=tf.nn.sigmoid)
        pictures = tf.reshape(fake, [-1, 8, 8, 1], name="pictures")
        logits = []
        for pixels in (tf.expand_dims(image, 3), pictures):
            with tf.variable_scope("discrim", reuse=tf.AUTO_REUSE):
                hidden = Dropout("dropout", Conv2D("conv", pixels, 8, 3, activation=tf.nn.relu), rate=0.3)
                logits.append(FullyConnected("fc", BatchNorm("bn", hidden), 1))
        costs = non_saturating_costs(*logits)
        if self.training:
            add_moving_summary(costs.generator, costs.discriminator)
        return costs

    def optimizers(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(2e-3, beta1=0.5)


class Tell(Callback):
    """Prints a line per step, so that somebody can choose a moment."""

    def _before_train(self):
        print("begins", flush=True)

    def _trigger_step(self):
        print(self.global_step, flush=True)
        threading.Event().wait(0.05)  # else it would be through before anyone can kill it often


class Watch(Callback):
    """Prints how far the training is, from a thread, since a callback at each step would make it one call."""

    def _before_train(self):
        print("begins", flush=True)
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        seen = None
        while not self.end.wait(0.0005):
            if self.global_step != seen:
                seen = self.global_step
                print(seen, flush=True)

    def _after_train(self):
        self.end.set()
        self.thread.join()
        print(self.global_step, flush=True)


def configure(log_dir, each_step=True):
    """The whole training, from the latest checkpoint if there is one."""
    train = BatchData(MapData(Digits("train"), augment, rng=True), 32)
    validation = InferenceRunner(
        BatchData(Digits("test"), 100, remainder=True), ScalarStats(["cost", "accuracy"])
    )
    # Averages, a schedule by steps, and a saver by steps and epochs at once, look at each step.
    points = [(30, 0.05), (70, 0.01)] if each_step else [(2, 0.05), (4, 0.01)]
    rate = ScheduledHyperParamSetter("learning_rate", points, step_based=each_step)
    epochs = {"every_k_epochs": 1} if each_step else {}
    return TrainConfig(
        model=Model(),
        dataflow=MultiProcessRunner(train, num_workers=2),
        callbacks=[
            *([Tell(), EMA(0.9)] if each_step else [Watch()]),
            rate,
            validation,
            MaxSaver("validation_accuracy"),
            PeriodicTrigger(ModelSaver(keep_last=3), every_k_steps=3 if each_step else 13, **epochs),
        ],
        steps_per_epoch=STEPS_PER_EPOCH if each_step else FUSED_STEPS_PER_EPOCH,
        max_epoch=EPOCHS,
        log_dir=log_dir,
        seed=3,
        resume="auto",
    )


def train_two_networks(log_dir):
    """Trains in rounds of two steps of the discriminator and one of the generator."""
    ema = EMA(0.9, scope="gen")
    train = BatchData(MapData(Digits("train"), augment, rng=True), 32)
    config = TrainConfig(
        model=Networks(),
        dataflow=MultiProcessRunner(train, num_workers=2),
        callbacks=[
            Tell(),
            ema,
            ema.applied_to(SampleGrid("pictures", rows=4, columns=4, value_range=(0, 1))),
            PeriodicTrigger(ModelSaver(keep_last=3), every_k_steps=3, every_k_epochs=1),
        ],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=EPOCHS // 2,
        log_dir=log_dir,
        seed=3,
        resume="auto",
    )
    GANTrainer(config, d_steps=2).train()


def train_agent(log_dir):
    """Trains an agent in turns of 16 updates, on steps of CartPoles with a saved state."""
    import gymnasium

    from towerpack_dataflow.envs import VectorEnvState
    from towerpack_dataflow.replay import RolloutBuffer
    from towerpack_trainers.rl import Categorical, PolicyModel, PPOTrainer

    class Agent(PolicyModel):
        def policy(self, observation):
            hidden = FullyConnected("hidden", observation, 32, activation=tf.nn.tanh)
            logits = FullyConnected("logits", hidden, self.action_space.n)
            return Categorical(logits), FullyConnected("value", hidden, 1)[:, 0]

        def optimizer(self):
            return tf.train.AdamOptimizer(3e-3)

    envs = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="vector_entry_point")
    spaces = envs.single_observation_space, envs.single_action_space
    config = TrainConfig(
        model=Agent.of(envs),
        # A checkpoint amid an iteration, and at ends of iterations.
        callbacks=[Tell(), PeriodicTrigger(ModelSaver(keep_last=3), every_k_steps=3, every_k_epochs=1)],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=EPOCHS // 2,
        log_dir=log_dir,
        seed=3,
        resume="auto",
    )
    rollout = RolloutBuffer(*spaces, steps=32, environments=8, seed=3)
    PPOTrainer(config, envs, rollout, batch_size=64, epochs=4, env_state=VectorEnvState(envs)).train()


def main():
    """Trains, in the way that the command line names."""
    if "--gan" in sys.argv:
        train_two_networks(Path(sys.argv[1]))
        return
    if "--ppo" in sys.argv:
        train_agent(Path(sys.argv[1]))
        return
    each_step = "--each-step" in sys.argv
    # The automatic choice depends on the speed of the machine; this test needs several steps in one call.
    SpeedTrial.SINGLES, SpeedTrial.is_faster = 0, True
    trainer = SimpleTrainer(configure(Path(sys.argv[1]), each_step))
    assert ("several in one session call" in trainer.explain()) is not each_step
    trainer.train()


if __name__ == "__main__":
    main()
