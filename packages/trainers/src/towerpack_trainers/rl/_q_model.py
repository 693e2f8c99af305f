"""Action values: the model that estimates them, their targets, and the target network."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeAlias, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every
from towerpack_callbacks.graph import begin_as_copies
from towerpack_layers import FullyConnected

from .._argument_checks import at_least
from .._errors import ConfigError, ModelError
from ._policy_model import AgentModel

__all__ = [
    "TARGET_SCOPE",
    "DoubleQ",
    "MaxQ",
    "QModel",
    "QObjective",
    "TargetAverage",
    "TargetCopy",
    "TargetNetwork",
    "TargetRule",
    "dueling",
    "huber",
    "target_pairs",
]

TARGET_SCOPE = "target_network"
"""The variable scope of the target network."""


def dueling(features: tf.Tensor, n: int) -> tf.Tensor:
    """Returns action values as the sum of the state's value and each action's advantage over the mean.

    It adds two layers to the graph, "state_value" and "advantage".

    Args:
        features: float [batch, units], the network's features of the observation.
        n: the number of actions.

    Returns:
        float [batch, n].

    Raises:
        ModelError: the features have another rank.

    References:
        Wang et al., "Dueling Network Architectures for Deep Reinforcement Learning" (2016),
        arXiv:1511.06581, equation 9.
    """
    rank: Any = features.shape.rank
    if rank != 2:
        raise ModelError(
            f"dueling(features, n) takes features of shape [batch, units]; received {features.shape}. "
            "Flatten them first."
        )
    value = FullyConnected("state_value", features, 1)
    advantage = FullyConnected("advantage", features, at_least("dueling", "n", n))
    return value + advantage - tf.reduce_mean(advantage, 1, keepdims=True)


class QModel(AgentModel):
    """Describes action values. Subclass it, and override `q_values` and `optimizer`.

    `DQNTrainer` adds the inputs for learning. The model itself predicts: a predictor with the input
    "observation" has the outputs "greedy_action", the action of the largest value, and
    "state_action_values", float32 [batch, actions].

    Args:
        observation_space: the space of one observation, a gymnasium `Box`.
        action_space: the space of one action, a gymnasium `Discrete`.

    Attributes:
        observation_space: the given space.
        action_space: the given space.

    Raises:
        ConfigError: agents of this kind do not support such a space.

    Example:
        ```python
        class CartPole(QModel):
            def q_values(self, observation):
                hidden = FullyConnected("hidden", observation, 64, activation=tf.nn.relu)
                return FullyConnected("values", hidden, self.action_space.n)

            def optimizer(self):
                return tf.train.AdamOptimizer(1e-3)

        model = CartPole.of(envs)
        ```
    """

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__(observation_space, action_space)
        choices = self._action.choices
        if not isinstance(choices, int):
            raise ConfigError(
                f"{type(self).__name__} estimates a value for each action and needs a finite number of "
                f"actions: expected a Discrete space; received {action_space!r}. Use PPOTrainer for "
                "other actions."
            )
        self._choices = choices

    @abc.abstractmethod
    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network to the graph.

        Args:
            observation: a batch of observations, with the dtype of the space.

        Returns:
            The expected discounted return of each action: float [batch, actions]. See `dueling`.
        """

    def build_graph(self, *inputs: tf.Tensor) -> None:
        """Adds a replica for acting."""
        values = tf.identity(self.checked_q_values(inputs[0]), "state_action_values")
        tf.argmax(values, 1, name="greedy_action")

    def checked_q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Adds the network, and checks the return value of `q_values`.

        Raises:
            ModelError: it does not contain a value for each action.
        """
        values = self.q_values(observation)
        wanted = f"{type(self).__name__}.q_values must return a value for each action, float [batch, "
        if not tf.is_tensor(values) or not values.dtype.is_floating:
            raise ModelError(f"{wanted}{self._choices}]; received {values!r}.")
        if values.shape.rank != 2 or values.shape[1] != self._choices:
            raise ModelError(f"{wanted}{self._choices}]; received shape {values.shape}.")
        return tf.cast(values, tf.float32)


@attrs.frozen
class QObjective(abc.ABC):
    """Makes targets for the values of actions.

    The target is `reward + discount * next_value`. Reward and discount are those of n steps in the memory:
    after a termination the discount is 0; after a truncation the value of the last observation counts.

    Args:
        n_step: the number of steps that the memory joins into one transition. None accepts any memory; a
            number is checked.
        gamma: the discount of rewards in the memory, checked likewise.
        delta: errors up to this size are squared, larger ones count linearly (Huber 1964).

    Raises:
        ConfigError: `delta` is not positive.

    Example:
        >>> class Mean(QObjective):
        ...     def next_value(self, online, target):
        ...         return tf.reduce_mean(target, 1)
        >>> Mean(n_step=3, gamma=0.99).n_step
        3
    """

    n_step: int | None = None
    gamma: float | None = None
    delta: float = 1.0

    def __attrs_post_init__(self) -> None:
        if not self.delta > 0:
            raise ConfigError(f"{type(self).__name__}(delta={self.delta!r}): expected a positive number.")

    @abc.abstractmethod
    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values of the next observations, float32 [batch].

        Args:
            online: adds the trained network, and returns its values of the next observations, float32
                [batch, actions].
            target: the target network's values of their actions, float32 [batch, actions].
        """


@final
@attrs.frozen
class MaxQ(QObjective):
    """Uses the largest value of the target network.

    After Mnih et al. 2015, "Human-level control through deep reinforcement learning".

    Args:
        n_step: see `QObjective`.
        gamma: see `QObjective`.
        delta: see `QObjective`.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     target = tf.constant([[1.0, 3.0]])
        ...     print(session.run(MaxQ().next_value(lambda: target, target)))
        [3.]
    """

    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values."""
        return tf.reduce_max(target, 1)


@final
@attrs.frozen
class DoubleQ(QObjective):
    """Uses the target network's value of the action that the trained network selects.

    This separates the selection of an action from the estimate of its value, so they do not share the same
    noise (van Hasselt et al. 2016, "Deep Reinforcement Learning with Double Q-learning", arXiv:1509.06461).

    Args:
        n_step: see `QObjective`.
        gamma: see `QObjective`.
        delta: see `QObjective`.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     online, target = tf.constant([[2.0, 1.0]]), tf.constant([[1.0, 3.0]])
        ...     print(session.run(DoubleQ().next_value(lambda: online, target)))
        [1.]
    """

    def next_value(self, online: Callable[[], tf.Tensor], target: tf.Tensor) -> tf.Tensor:
        """Returns the values."""
        return tf.gather(target, tf.argmax(online(), 1), batch_dims=1)


def huber(error: tf.Tensor, delta: float) -> tf.Tensor:
    """Returns half the square of errors up to `delta`, and a linear function with the same slope beyond."""
    size = tf.abs(error)
    squared = tf.minimum(size, delta)
    return 0.5 * tf.square(squared) + delta * (size - squared)


@final
@attrs.frozen
class TargetCopy:
    """Copies the trained network into the target network periodically.

    Args:
        every: the period, in updates.

    Raises:
        ConfigError: the period is not a number of at least 1.

    Example:
        >>> TargetCopy(every=500)  # for DQNTrainer(target_network=...)
        TargetCopy(every=500)
    """

    every: int = 1000

    def __attrs_post_init__(self) -> None:
        at_least("TargetCopy", "every", self.every)


@final
@attrs.frozen
class TargetAverage:
    """Moves the target network a little towards the trained one, in each update.

    Args:
        rate: the fraction of the difference to move by (tau in Lillicrap et al. 2016, arXiv:1509.02971).

    Raises:
        ConfigError: the rate is not above 0, or is above 1.

    Example:
        >>> TargetAverage(rate=0.01)  # for DQNTrainer(target_network=...)
        TargetAverage(rate=0.01)
    """

    rate: float = 0.005

    def __attrs_post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ConfigError(f"TargetAverage(rate={self.rate!r}): expected a number above 0, at most 1.")


TargetRule: TypeAlias = TargetCopy | TargetAverage


@final
class TargetNetwork(Callback):
    """Updates the target network. It begins as a copy, even if the restored weights do not include it.

    Args:
        rule: the update rule.
    """

    chief_only = False

    def __init__(self, rule: TargetRule) -> None:
        self._rule = rule

    def within(self, train_op: tf.Operation) -> tf.Operation:
        """Returns the op of an update together with the ops that follow every update."""
        if isinstance(self._rule, TargetCopy):
            return train_op
        with tf.control_dependencies([train_op]), tf.name_scope("target_average"):
            moves = [
                target.assign_add(self._rule.rate * (online.read_value() - target.read_value()))
                for online, target in target_pairs()
            ]
            return tf.group(*moves, name="update")

    def _setup_graph(self) -> None:
        pairs = target_pairs()
        begin_as_copies(self.graph, ((target, online) for online, target in pairs))
        self._copy: tf.Operation = tf.group(
            *(target.assign(online.read_value()) for online, target in pairs), name="copy"
        )

    def _before_train(self) -> None:
        if self.global_step == 0:
            self._trigger_step()

    def step_period(self) -> Every | None:
        """Returns the period of copying."""
        return Every(steps=self._rule.every) if isinstance(self._rule, TargetCopy) else None

    def _trigger_step(self) -> None:
        self.trainer.sess.run(self._copy)


def target_pairs() -> list[tuple[tf.Variable, tf.Variable]]:
    """Returns pairs of variables: each trained variable with a copy in the target network, and the copy.

    Raises:
        ModelError: the target network has a variable that the trained network does not have.
    """
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    pairs = []
    for name, target in variables.items():
        if f"/{TARGET_SCOPE}/" not in f"/{name}":
            continue
        before, _, after = f"/{name}".partition(f"/{TARGET_SCOPE}/")
        online = variables.get(f"{before}/{after}".lstrip("/"))
        if online is None:
            raise ModelError(
                f"The network has made the variable {name!r} as the target network, but no variable of that "
                "name otherwise. The names of its variables must depend only on the model."
            )
        pairs.append((online, target))
    return pairs
