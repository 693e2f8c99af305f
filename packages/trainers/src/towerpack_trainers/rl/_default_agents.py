"""Agents by the name of an environment: default settings, networks by its spaces, and vector environments."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MaxSaver, PeriodicTrigger
from towerpack_layers import Conv2D, FullyConnected

from .._errors import ConfigError
from ..config import TrainConfig
from ..distributed import MissingExtraError
from ..optimize import GlobalNormClip, apply_grad_processors
from ._policy_evaluator import PolicyEvaluator
from ._policy_model import Categorical, DiagonalGaussian, Distribution, MultiCategorical, PolicyModel
from ._q_model import QModel, dueling

__all__ = [
    "DQNSettings",
    "DefaultPolicyModel",
    "DefaultQModel",
    "EnvMaker",
    "PPOSettings",
    "config_for_env",
    "scaled_rewards",
    "vector_envs",
]

EnvMaker: TypeAlias = Callable[[int], Any]
"""Makes the given number of environments, as one `gymnasium.vector.VectorEnv`."""

_EVALUATIONS = 20  # about as many in a training


def _name(env: str | EnvMaker) -> str:
    """Returns the name of an environment without its module; "" for a function."""
    return env.rpartition(":")[2] if isinstance(env, str) else ""


# ---- settings


@final
@attrs.frozen(kw_only=True)
class PPOSettings:
    """The settings of `PPOTrainer.for_env`. `attrs.evolve(settings, gamma=0.9)` makes a changed copy.

    Args:
        env_steps: the number of steps of all environments in the training.
        environments: the number of environments.
        steps: the number of steps of each environment in an iteration.
        batch_size: the number of steps in an update.
        epochs: the number of times that each step is used for learning.
        learning_rate: the first learning rate of Adam; it decreases linearly to 0.
        gamma: the discount of rewards.
        lam: the discount of estimates over more steps, lambda of generalised advantage estimation.
        clip: the limit for the change of an action's probability.
        entropy: the weight of the entropy.
        reward_scale: the factor of rewards in training; evaluations have the original rewards.
        units: the sizes of hidden layers.

    Example:
        >>> attrs.evolve(PPOSettings(), environments=16, reward_scale=0.1).environments
        16
    """

    env_steps: int = 1_000_000
    environments: int = 8
    steps: int = 125
    batch_size: int = 250
    epochs: int = 10
    learning_rate: float = 1e-3
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    reward_scale: float = 1.0
    units: tuple[int, ...] = (64, 64)

    @classmethod
    def of(cls, env: str | EnvMaker) -> PPOSettings:
        """Returns the settings for a known environment, or the default ones."""
        name = _name(env)
        return _PPO_ATARI if name.startswith("ALE/") else _PPO.get(name, cls())

    @property
    def iterations(self) -> int:
        """The number of iterations of the training, at least 1."""
        return max(1, self.env_steps // (self.environments * self.steps))

    @property
    def updates_per_iteration(self) -> int:
        """The number of updates in an iteration."""
        return self.epochs * -(-self.environments * self.steps // self.batch_size)


_PPO_ATARI = PPOSettings(
    env_steps=10_000_000,
    steps=128,
    batch_size=256,
    epochs=4,
    learning_rate=2.5e-4,
    clip=0.1,
    entropy=0.01,
    units=(512,),
)
_PPO = {
    "CartPole-v1": PPOSettings(env_steps=200_000, epochs=20, gamma=0.98, lam=0.8),
    "Acrobot-v1": PPOSettings(
        env_steps=100_000, environments=16, steps=62, batch_size=62, entropy=0.01, reward_scale=0.1
    ),
    "Pendulum-v1": PPOSettings(
        env_steps=100_000, environments=4, steps=250, batch_size=50, gamma=0.9, reward_scale=0.1
    ),
    "MinAtar/Breakout-v1": PPOSettings(environments=32, epochs=4, entropy=0.01, units=(128,)),
}


@final
@attrs.frozen(kw_only=True)
class DQNSettings:
    """The settings of `DQNTrainer.for_env`. `attrs.evolve(settings, gamma=0.9)` makes a changed copy.

    Args:
        env_steps: the number of steps of all environments in the training.
        environments: the number of environments.
        steps: the number of steps of all environments in an iteration.
        updates: the number of updates in an iteration.
        batch_size: the number of transitions in an update.
        capacity: the capacity of the memory, in transitions.
        learning_starts: the number of steps of all environments before the first update.
        target_every: the number of updates between copies of the network into the target network.
        exploration_steps: the number of steps in which the fraction of random actions decreases from 1.
        epsilon: the fraction of random actions after these steps.
        learning_rate: the first learning rate of Adam; it decreases linearly to 1e-5.
        gamma: the discount of rewards.
        n_step: the number of steps that are joined into one transition.
        frame_stack: the number of frames along the first axis of observations; the memory stores each once.
        units: the sizes of hidden layers.

    Example:
        >>> attrs.evolve(DQNSettings(), gamma=0.9, units=(64, 64)).gamma
        0.9
    """

    env_steps: int = 1_000_000
    environments: int = 8
    steps: int = 64
    updates: int = 32
    batch_size: int = 128
    capacity: int = 100_000
    learning_starts: int = 1000
    target_every: int = 128
    exploration_steps: int = 100_000
    epsilon: float = 0.04
    learning_rate: float = 1e-3
    gamma: float = 0.99
    n_step: int = 5
    frame_stack: int = 1
    units: tuple[int, ...] = (256, 256)

    @classmethod
    def of(cls, env: str | EnvMaker) -> DQNSettings:
        """Returns the settings for a known environment, or the default ones."""
        name = _name(env)
        return _DQN_ATARI if name.startswith("ALE/") else _DQN.get(name, cls())

    @property
    def iterations(self) -> int:
        """The number of iterations of the training, at least 1."""
        return max(1, self.env_steps // self.steps)


_DQN_ATARI = DQNSettings(
    env_steps=10_000_000,
    updates=16,
    batch_size=32,
    learning_starts=20_000,
    target_every=1000,
    exploration_steps=1_000_000,
    epsilon=0.01,
    learning_rate=1e-4,
    n_step=3,
    frame_stack=4,
    units=(512,),
)
_DQN = {
    "CartPole-v1": DQNSettings(env_steps=50_000, updates=64, exploration_steps=8_000, gamma=0.997),
    "Acrobot-v1": DQNSettings(
        env_steps=100_000, updates=64, exploration_steps=15_000, epsilon=0.02, learning_rate=6e-4, n_step=3
    ),
    "MountainCar-v0": DQNSettings(env_steps=120_000, exploration_steps=24_000),
    "MinAtar/Breakout-v1": DQNSettings(updates=16, learning_rate=5e-4, units=(128,)),
}


# ---- networks

# Filters, size and stride of each convolution: Mnih et al. 2015, "Human-level control through deep
# reinforcement learning", and for small pictures Young and Tian 2019, "MinAtar".
_LARGE = (32, 8, 4), (64, 4, 2), (64, 3, 1)
_SMALL = ((16, 3, 1),)
_SMALLEST_LARGE = 36


def _is_picture(space: Any) -> bool:
    return len(space.shape) == 3


def _numbers(space: Any, observation: tf.Tensor) -> tf.Tensor:
    """Returns observations without convolutions: flat numbers, or a choice as a one-hot vector."""
    if getattr(space, "n", None) is not None and space.shape == ():
        return tf.one_hot(observation - int(getattr(space, "start", 0)), int(space.n))
    numbers = tf.cast(observation, tf.float32)
    return numbers if len(space.shape) == 1 else tf.reshape(numbers, [-1, int(np.prod(space.shape))])


def _convolved(space: Any, observation: tf.Tensor) -> tf.Tensor:
    """Applies convolutions to pictures, the channels of which are the first or the last axis."""
    channels_first = space.shape[0] < space.shape[2]
    x = tf.transpose(observation, [0, 2, 3, 1]) if channels_first else observation
    x = tf.cast(x, tf.float32) / (255 if observation.dtype == tf.uint8 else 1)
    side = min(x.shape[1:3].as_list())
    for number, (filters, size, stride) in enumerate(_LARGE if side >= _SMALLEST_LARGE else _SMALL):
        name = f"conv{number}"
        x = Conv2D(name, x, filters, size, strides=stride, padding="valid", activation=tf.nn.relu)
    return x


def _hidden(
    x: tf.Tensor, units: Sequence[int], activation: Callable[[tf.Tensor], tf.Tensor], initializer: Any = None
) -> tf.Tensor:
    for number, count in enumerate(units):
        x = FullyConnected(f"hidden{number}", x, count, activation=activation, kernel_initializer=initializer)
    return x


def _decayed(learning_rate: float, end: float, updates: int, epsilon: float = 1e-8) -> tf.train.Optimizer:
    step = tf.train.get_or_create_global_step()
    rate = tf.train.polynomial_decay(learning_rate, step, updates, end)
    return tf.train.AdamOptimizer(rate, epsilon=epsilon)


@final
class DefaultPolicyModel(PolicyModel):
    """The policy of `PPOTrainer.for_env`: networks by the spaces, and Adam.

    Vectors have separate networks for policy and values, with tanh. For pictures, both share the convolutions
    of Mnih et al. 2015, or one 3x3 convolution if a side is shorter than 36 pixels. Initial weights are
    orthogonal, and small in the last layer of the policy, so that all actions are about equally likely.
    Gradients are clipped to a norm of 0.5 (Huang et al. 2022, "The 37 implementation details of PPO").

    Args:
        observation_space: the space of one observation: a `Discrete`, or a `Box` of any rank.
        action_space: the space of one action, a gymnasium `Discrete`, `MultiDiscrete` or `Box` of floats.
        settings: the sizes of layers and the optimizer's settings; None: `PPOSettings()`.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents do not support such a space.

    Example:
        ```python
        model = DefaultPolicyModel.of(envs)
        ```
    """

    def __init__(
        self, observation_space: Any, action_space: Any, settings: PPOSettings | None = None
    ) -> None:
        super().__init__(observation_space, action_space)
        self._settings = PPOSettings() if settings is None else settings

    def policy(self, observation: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """Adds the networks; see `PolicyModel`."""
        space, units = self.observation_space, self._settings.units
        orthogonal = tf.orthogonal_initializer
        if _is_picture(space):
            x = _hidden(_convolved(space, observation), units, tf.nn.relu, orthogonal(2**0.5))
            units = ()
        else:
            x = _numbers(space, observation)

        def network(name: str, outputs: int, gain: float = 0.01) -> tf.Tensor:
            with tf.variable_scope(name):
                hidden = _hidden(x, units, tf.nn.tanh, orthogonal(2**0.5))
                return FullyConnected("output", hidden, outputs, kernel_initializer=orthogonal(gain))

        value = network("value", 1, gain=1.0)[:, 0]
        choices = self._action.choices
        if isinstance(choices, int):
            return Categorical(network("policy", choices)), value
        if choices is not None:
            return MultiCategorical(network("policy", sum(choices)), choices), value
        shape = self._action.shape
        mean = tf.reshape(network("policy", int(np.prod(shape))), [-1, *shape])
        spread = tf.get_variable("log_std", shape, initializer=tf.zeros_initializer())
        return DiagonalGaussian(mean, spread), value

    def optimizer(self) -> tf.train.Optimizer:
        """Returns Adam with clipped gradients and a learning rate that decreases linearly to 0."""
        settings = self._settings
        updates = settings.iterations * settings.updates_per_iteration
        adam = _decayed(settings.learning_rate, 0.0, updates, epsilon=1e-5)
        return apply_grad_processors(adam, [GlobalNormClip(0.5)])


@final
class DefaultQModel(QModel):
    """The action values of `DQNTrainer.for_env`: a network by the space of observations, and Adam.

    It ends in `dueling`. Pictures have the convolutions of `DefaultPolicyModel`.

    Args:
        observation_space: the space of one observation: a `Discrete`, or a `Box` of any rank.
        action_space: the space of one action, a gymnasium `Discrete`.
        settings: the sizes of layers and the optimizer's settings; None: `DQNSettings()`.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents of this kind do not support such a space.

    Example:
        ```python
        model = DefaultQModel.of(envs)
        ```
    """

    def __init__(
        self, observation_space: Any, action_space: Any, settings: DQNSettings | None = None
    ) -> None:
        super().__init__(observation_space, action_space)
        self._settings = DQNSettings() if settings is None else settings

    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network; see `QModel`."""
        space = self.observation_space
        x = (_convolved if _is_picture(space) else _numbers)(space, observation)
        return dueling(_hidden(x, self._settings.units, tf.nn.relu), self._choices)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns Adam, with a learning rate that decreases linearly."""
        settings = self._settings
        return _decayed(settings.learning_rate, 1e-5, settings.iterations * settings.updates)


# ---- environments and the training


def vector_envs(env: str | EnvMaker, count: int) -> Any:
    """Makes vector environments by a name of gymnasium, or with a function.

    Environments that gymnasium has in vectorised form use it; others are stepped one after the other, in this
    process. Observations of `Dict` and `Tuple` spaces become vectors.

    Args:
        env: the name, such as "CartPole-v1" or "ale_py:ALE/Pong-v5"; or a function of the count.
        count: the number of environments.

    Raises:
        ConfigError: `env` is neither, or the function returned something else.
        MissingExtraError: gymnasium is not installed; it comes with the extra `rl`.
        gymnasium.error.Error: gymnasium has no such environment.
    """
    try:
        import gymnasium
        from gymnasium.wrappers.vector import FlattenObservation
    except ImportError as error:
        raise MissingExtraError.of("rl", error) from error
    if callable(env):
        envs = env(count)
    elif isinstance(env, str):
        module, _, name = env.rpartition(":")
        if module:  # it registers the environment
            importlib.import_module(module)
        vectorized = gymnasium.spec(name).vector_entry_point is not None
        mode = "vector_entry_point" if vectorized else "sync"
        envs = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode)
    else:
        envs = env
    if getattr(envs, "num_envs", None) != count or not hasattr(envs, "single_action_space"):
        raise ConfigError(
            f"env={env!r}: expected the name of a gymnasium environment, or a function of a number that "
            "makes this number of them as vector environments, such as "
            f'`lambda count: gymnasium.make_vec("CartPole-v1", count)`; for {count}, received {envs!r}.'
        )
    composite = isinstance(envs.single_observation_space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple))
    return FlattenObservation(envs) if composite else envs


def scaled_rewards(envs: Any, scale: float) -> Any:
    """Wraps vector environments so that their rewards are multiplied by `scale`."""
    from gymnasium.wrappers.vector import TransformReward

    return TransformReward(envs, lambda reward: reward * scale)


def config_for_env(
    env: str | EnvMaker,
    settings: PPOSettings | DQNSettings,
    iterations: int,
    updates: int,
    iterations_per_epoch: int,
    evaluation_episodes: int,
    config: dict[str, Any],
) -> TrainConfig:
    """Returns the configuration of a training with about 20 evaluations, which keeps the best weights.

    Args:
        env: as for `vector_envs`.
        settings: the settings of the training.
        iterations: the number of iterations of the training.
        updates: the number of updates in an iteration.
        iterations_per_epoch: the largest number of iterations in an epoch.
        evaluation_episodes: the number of episodes in an evaluation; 0: no evaluations.
        config: further arguments of `TrainConfig`, which replace these; callbacks come after these.

    Raises:
        ConfigError: an argument is a setting.
    """
    kind = type(settings)
    for name in config.keys() & attrs.fields_dict(kind).keys():
        raise ConfigError(
            f"for_env({name}={config[name]!r}): {name} is a setting. Pass "
            f"settings=attrs.evolve({kind.__name__}.of(env), {name}={config[name]!r})."
        )
    in_epoch = max(1, min(iterations_per_epoch, iterations // _EVALUATIONS))
    epochs = iterations // in_epoch
    made = TrainConfig(**{"steps_per_epoch": in_epoch * updates, "max_epoch": epochs, **config})
    callbacks: list[Callback] = []
    if evaluation_episodes:
        evaluator = PolicyEvaluator(
            lambda: vector_envs(env, evaluation_episodes), evaluation_episodes, seed=1_000_000
        )
        callbacks.append(PeriodicTrigger(evaluator, every_k_epochs=max(1, epochs // _EVALUATIONS)))
        if made.log_dir is not None:
            callbacks.append(MaxSaver("evaluation_mean_return"))
    return attrs.evolve(made, callbacks=[*callbacks, *made.callbacks])
