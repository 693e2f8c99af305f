"""What suits each environment, for `ppo.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What suits an environment.

    Attributes:
        env_steps: how many steps of environments the training takes at most.
        goal: the mean return of an evaluation that ends it early.
        envs, steps: how many environments there are, and how many steps of each a turn has.
        batch_size, epochs: of updates; how often each step is learned from.
        rate: of learning, which falls to 0 in the course of the training.
        gamma, lam, clip, entropy: of the paper.
        scale: factor of rewards.
        evaluate, every: how many episodes an evaluation has, and how many epochs of ten turns come before it.
        units, filters: of hidden layers, and of convolutions in front of them.
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
    def turns(self) -> int:
        """How often all environments make their steps."""
        return self.env_steps // (self.envs * self.steps)

    @property
    def updates(self) -> int:
        """How many updates follow them, of all turns together."""
        return self.turns * self.epochs * -(-self.envs * self.steps // self.batch_size)


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
