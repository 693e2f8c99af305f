"""A generative adversarial network of points on a ring, with all annotations.

python gan.py
"""

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import EMA, Callback, ModelSaver
from towerpack_dataflow import BatchData, DataFromArrays
from towerpack_layers import FullyConnected, argscope, random_normal
from towerpack_trainers import TrainConfig
from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer, non_saturating_costs

Z, POINTS = 8, 2048


class Ring(GANModelDesc):
    """Generates points at distance 1 from the origin."""

    def inputs(self) -> Sequence[tf.TensorSpec]:
        """Returns the signature of a batch."""
        return [tf.TensorSpec([None, 2], tf.float32, "point")]

    def build_graph(self, point: tf.Tensor) -> GANCosts | None:
        """Returns the costs of both networks."""
        noise = random_normal("noise", [tf.shape(point)[0], Z])
        with tf.variable_scope("gen"), argscope(FullyConnected, activation=tf.nn.leaky_relu):
            hidden = FullyConnected("fc1", FullyConnected("fc0", noise, 64), 64)
            fake = FullyConnected("linear", hidden, 2, activation=None)
        fake = tf.identity(fake, "fake")
        with tf.variable_scope("discrim"):
            real_logits = self._discriminator(point)
        with tf.variable_scope("discrim", reuse=True):
            fake_logits = self._discriminator(fake)
        return non_saturating_costs(real_logits, fake_logits)

    def optimizers(self) -> tuple[tf.train.Optimizer, tf.train.Optimizer]:
        """Returns the optimizers of the generator and of the discriminator."""
        return tf.train.AdamOptimizer(1e-3, beta1=0.5), tf.train.AdamOptimizer(1e-3, beta1=0.5)

    def _discriminator(self, point: tf.Tensor) -> tf.Tensor:
        with argscope(FullyConnected, activation=tf.nn.leaky_relu):
            hidden = FullyConnected("fc1", FullyConnected("fc0", point, 64), 64)
        return FullyConnected("linear", hidden, 1)


class Distance(Callback):
    """Records the mean distance of generated points from the origin."""

    def produces(self) -> Sequence[str]:
        """Returns the name of the recorded number."""
        return ["distance"]

    def _setup_graph(self) -> None:
        (self._fake,) = self.trainer.get_tensors(["fake"])

    def _trigger(self) -> None:
        points: np.ndarray = self.trainer.sess.run(self._fake)
        self.trainer.monitors.put_scalar("distance", float(np.linalg.norm(points, axis=1).mean()))


def ring(seed: int) -> np.ndarray:
    """Returns points, float32 [POINTS, 2]."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, POINTS)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def main(max_epoch: int = 20, log_dir: str = "train_log/annotated_gan") -> None:
    """Trains, and prints the mean distance of generated points from the origin."""
    config = TrainConfig(
        model=Ring(),
        dataflow=BatchData(DataFromArrays([ring(0)], shuffle=True), 64),
        callbacks=[EMA(0.99, scope="gen"), Distance(), ModelSaver(keep_last=1)],
        max_epoch=max_epoch,
        log_dir=log_dir,
        seed=0,
    )
    trainer = GANTrainer(config)
    trainer.train()
    print(f"mean distance {trainer.monitors.get_latest('distance'):.2f}; the ring has 1")


if __name__ == "__main__":
    main()
