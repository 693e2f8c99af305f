"""The settings of `ppo.py` for each environment."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The settings for an environment.

    Attributes:
        env_steps: the maximum number of environment steps.
        goal: the mean return of an evaluation that ends it early.
        envs, steps: the number of environments, and the number of steps of each in an iteration.
        batch_size, epochs: of updates; the number of passes over the steps of an iteration.
        rate: the learning rate, which decreases to 0 over the training.
        gamma, lam, clip, entropy: the parameters of the paper.
        scale: factor of rewards.
        evaluate, every: the number of episodes of an evaluation, and of epochs of ten iterations before it.
        units, filters: the sizes of hidden layers, and of the convolutions before them.
    """

    env_steps: int
    goal: float = float("inf")
    envs: int = 8
    steps: int = 125
    batch_size: int = 250
    epochs: int = 10
    rate: float = 1e-3
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    scale: float = 1.0
    evaluate: int = 20
    every: int = 1
    units: tuple[int, ...] = (64, 64)
    filters: tuple[int, ...] = ()

    @property
    def iterations(self) -> int:
        """The number of iterations."""
        return self.env_steps // (self.envs * self.steps)

    @property
    def updates(self) -> int:
        """The total number of updates of all iterations."""
        return self.iterations * self.epochs * -(-self.envs * self.steps // self.batch_size)


SETTINGS = {
    "CartPole-v1": Settings(env_steps=200_000, goal=500, epochs=20, gamma=0.98, lam=0.8),
    "Acrobot-v1": Settings(
        env_steps=100_000, envs=16, steps=62, batch_size=62, entropy=0.01, scale=0.1, evaluate=50
    ),
    "Pendulum-v1": Settings(env_steps=100_000, envs=4, steps=250, batch_size=50, gamma=0.9, scale=0.1),
    "MinAtar/Breakout-v1": Settings(
        env_steps=1_000_000, envs=32, epochs=4, entropy=0.01, filters=(16,), units=(128,)
    ),
    "Pong": Settings(
        env_steps=1_500_000,
        goal=18,
        steps=128,
        epochs=4,
        rate=5e-4,
        clip=0.1,
        entropy=0.01,
        evaluate=8,
        every=10,
        filters=(16, 32),
        units=(256,),
    ),
}
