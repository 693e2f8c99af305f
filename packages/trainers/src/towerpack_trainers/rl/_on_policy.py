"""PPO and A2C: agents that learn from the steps of their newest policy."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary
from towerpack_inputsource import RolloutInput, rollout_for, state_for

from .._argument_checks import at_least
from .._errors import ConfigError
from ..config import TrainConfig
from ..towers._model_desc import ModelDesc
from ._acting import ITERATIONS_IN_EPOCH, AgentTrainer, Collector, updates_of
from ._default_agents import (
    DefaultPolicyModel,
    EnvMaker,
    PPOSettings,
    config_for_env,
    scaled_rewards,
    vector_envs,
)
from ._environments import Transitions, autoreset_mode
from ._policy_model import Distribution, PolicyModel, action_spec
from ._protocols import Environments, EnvironmentState, Rollout

__all__ = [
    "A2CObjective",
    "A2CTrainer",
    "OnPolicyModel",
    "PPOObjective",
    "PPOTrainer",
    "PolicyObjective",
    "RolloutCollector",
    "RolloutTensors",
    "iterations_of",
]


class PolicyObjective(abc.ABC):
    """Makes the cost of a policy and its values from a batch of a rollout.

    Example:
        >>> class Reinforce(PolicyObjective):
        ...     def cost(self, distribution, value, batch):
        ...         return -tf.reduce_mean(distribution.log_probability(batch.action) * batch.value_target)
    """

    @abc.abstractmethod
    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost, a scalar.

        Args:
            distribution: the policy for the batch's observations.
            value: float32 [batch], the estimated values of these observations.
            batch: the batch, as tensors: `RolloutTensors`.
        """


@final
@attrs.frozen
class PPOObjective(PolicyObjective):
    """The clipped objective of Schulman et al. 2017, "Proximal Policy Optimization Algorithms", equation 9.

    Args:
        clip: the limit for the change of an action's probability, epsilon in the paper.
        value: weight of the squared error of values.
        entropy: weight of the entropy, which is maximised.
        normalize: whether to normalise each batch's advantages to mean 0 and standard deviation 1.

    Example:
        >>> attrs.evolve(PPOObjective(clip=0.1), entropy=0.01)
        PPOObjective(clip=0.1, value=0.5, entropy=0.01, normalize=True)
    """

    clip: float = 0.2
    value: float = 0.5
    entropy: float = 0.0
    normalize: bool = True

    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost."""
        advantage = _normalized(batch.advantage) if self.normalize else batch.advantage
        ratio = tf.exp(distribution.log_probability(batch.action) - batch.old_log_probability)
        # The clipped ratio is chosen only at a limit, where it has no gradient.
        clipped = tf.stop_gradient(tf.clip_by_value(ratio, 1 - self.clip, 1 + self.clip))
        chosen = tf.where(ratio * advantage <= clipped * advantage, ratio, clipped)
        policy = _mean(-chosen * advantage, "policy_cost")
        add_moving_summary(_mean(tf.cast(tf.not_equal(ratio, clipped), tf.float32), "clipped_share"))
        return _total(policy, distribution, value, batch.value_target, self.value, self.entropy)


@final
@attrs.frozen
class A2CObjective(PolicyObjective):
    """The advantage actor-critic of Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning".

    Args:
        value: weight of the squared error of values.
        entropy: weight of the entropy, which is maximised.
        normalize: whether to normalise each batch's advantages to mean 0 and standard deviation 1.

    Example:
        >>> A2CObjective(entropy=0.001)
        A2CObjective(value=0.5, entropy=0.001, normalize=False)
    """

    value: float = 0.5
    entropy: float = 0.01
    normalize: bool = False

    def cost(self, distribution: Distribution, value: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns the cost."""
        advantage = _normalized(batch.advantage) if self.normalize else batch.advantage
        lost = -distribution.log_probability(batch.action) * advantage
        policy = _mean(lost, "policy_cost")
        return _total(policy, distribution, value, batch.value_target, self.value, self.entropy)


def _total(
    policy: tf.Tensor,
    distribution: Distribution,
    value: tf.Tensor,
    target: tf.Tensor,
    value_weight: float,
    entropy_weight: float,
) -> tf.Tensor:
    of_values = _mean(tf.square(value - target), "value_cost")
    entropy = _mean(distribution.entropy(), "entropy")
    add_moving_summary(policy, of_values, entropy)
    total = policy + value_weight * of_values
    if entropy_weight:  # otherwise TensorFlow would compute a gradient of zeros
        total -= entropy_weight * entropy
    return tf.identity(total, name="cost")


def _normalized(advantage: tf.Tensor) -> tf.Tensor:
    centred = advantage - tf.reduce_mean(advantage)
    return centred / (tf.sqrt(tf.reduce_mean(tf.square(centred))) + 1e-8)


def _mean(numbers: tf.Tensor, name: str) -> tf.Tensor:
    """Averages numbers; 0 for an empty batch, which occurs if each of its few steps was only a reset."""
    count = tf.cast(tf.size(numbers), tf.float32)
    return tf.div_no_nan(tf.reduce_sum(numbers), count, name=name)


@final
class RolloutTensors(NamedTuple):
    """A batch of steps of a rollout, as the inputs of the graph; the first axis of all is the batch.

    Attributes:
        observation: the observation before the step.
        action: the action of the step.
        old_value: float32, the value estimated at that time.
        old_log_probability: float32, the log-probability of the action at that time.
        advantage: float32.
        value_target: float32.
    """

    observation: tf.Tensor
    action: tf.Tensor
    old_value: tf.Tensor
    old_log_probability: tf.Tensor
    advantage: tf.Tensor
    value_target: tf.Tensor


@final
class OnPolicyModel(ModelDesc):
    """A policy model that learns from rollouts: its training towers have a cost, the others act.

    Args:
        policy: the model to train.
        objective: makes the cost.

    Raises:
        ConfigError: the model is not a `PolicyModel`.
    """

    data_from_trainer = True

    def __init__(self, policy: ModelDesc | None, objective: PolicyObjective) -> None:
        if not isinstance(policy, PolicyModel):
            raise ConfigError(
                f"Agents of this kind need TrainConfig(model=a PolicyModel); received {policy!r}."
            )
        self._policy, self._objective = policy, objective

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the components of a rollout's batch."""
        [observation] = self._policy.inputs()
        action = action_spec(self._policy.action_space)
        numbers = RolloutTensors._fields[2:]
        return [
            observation,
            tf.TensorSpec([None, *action.shape], action.dtype, "action"),
            *(tf.TensorSpec([None], tf.float32, name) for name in numbers),
        ]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            self._policy.build_graph(inputs[0])
            return None
        batch = RolloutTensors(*inputs)
        distribution, value = self._policy.checked_policy(batch.observation)
        return self._objective.cost(distribution, value, batch)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the policy's optimizer."""
        return self._policy.optimizer()


_DIRECTORY = "rollout"


@final
class RolloutCollector(Collector):
    """Fills a rollout with steps of the newest policy; an iteration learns from each step several times.

    Args:
        envs: the environments.
        source: the input of the training.
        rollout: a rollout for these environments.
        batch_size: the batch size of an update.
        epochs: the number of times that each step is used for learning.
        updates: the number of updates in an iteration.
        env_state: see `Collector`.
    """

    def __init__(
        self,
        envs: Environments,
        source: RolloutInput,
        rollout: Rollout,
        batch_size: int,
        epochs: int,
        updates: int,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None,
    ) -> None:
        super().__init__(envs, source, updates, env_state)
        self._rollout, self._batch_size, self._epochs = rollout, batch_size, epochs
        action = action_spec(self.steps.parts[0].envs.single_action_space)
        self._action_dtype = action.dtype.as_numpy_dtype
        rollout.clear()
        self._found = rollout.state_dict()
        # Minibatches are drawn with the rollout's random numbers, so their earlier state is saved.
        self._drawn_from: dict[str, Any] = {}

    def _outputs(self) -> Sequence[str]:
        return ["sampled_action", "action_log_probability", "state_value"]

    def _make_data(self) -> None:
        rollout = self._rollout
        rollout.clear()
        for observation, (action, log_probability, value), happened in self._transitions(rollout.steps):
            rollout.add(
                observation,
                action,
                happened.reward,
                happened.terminated,
                happened.truncated,
                value=value,
                log_probability=log_probability,
                truncation_value=self._truncation_value(happened),
                valid=happened.valid,
            )
        rollout.finish(self._act(self.steps.observation)[2])
        self._drawn_from = rollout.state_dict()

    def _truncation_value(self, happened: Transitions) -> np.ndarray | None:
        """Returns the values after truncations, if the next step does not have them."""
        if self.steps.resets_by_next_step or not happened.truncated.any():
            return None
        return self._act(happened.next_observation)[2]

    def _batches(self) -> Iterator[Sequence[np.ndarray]]:
        for batch in self._rollout.minibatches(self._batch_size, self._epochs):
            yield (
                batch.observation,
                # A rollout stores actions in the dtype of the space, such as float64.
                np.asarray(batch.action, self._action_dtype),
                batch.value,
                batch.log_probability,
                batch.advantage,
                batch.value_target,
            )

    def _end_iteration(self) -> None:
        self._rollout.clear()
        self._drawn_from = self._rollout.state_dict()

    def _after_train(self) -> None:
        # As with flows: a second training, such as one after a dry run, begins in the same state.
        self._rollout.clear()
        self._rollout.load_state_dict(self._found)

    def _describe_iteration(self) -> str:
        steps, count = self._rollout.steps, self._rollout.environments
        return (
            f"{steps * count:,} steps, {steps} of each environment, then {self._updates} updates by batches "
            f"of at most {self._batch_size}; each step {self._epochs} times"
        )

    def _data_state(self) -> dict[str, Any]:
        return self._drawn_from

    def _save_data(self, directory: Path) -> None:
        self._rollout.link_into(directory / _DIRECTORY)

    def _load_data(self, state: dict[str, Any], directory: Path) -> None:
        self._rollout.load_state_dict(state, directory / _DIRECTORY)
        self._drawn_from = state


@final
class PPOTrainer(AgentTrainer):
    """Trains a policy by proximal policy optimization (Schulman et al. 2017).

    In each iteration, the newest policy makes the steps of a rollout, then the trainer learns from each step
    `epochs` times, in batches of `batch_size`. `global_step` counts these updates, and `env_steps` the steps
    of environments. An epoch is ten such iterations, unless `TrainConfig(steps_per_epoch=…)` is given.

    Steps that only reset an environment, as in autoreset mode "NextStep", are not used for learning. A batch
    with only such steps is an update with zero gradients: it counts in `global_step`, and an optimizer with
    momentum, such as Adam, still changes the weights. This is likely for batches of one step; mode "SameStep"
    has no such steps.

    Args:
        config: the training; its model is a `PolicyModel`, and it has no data.
        envs: a `gymnasium.vector.VectorEnv`, in any autoreset mode; or a list of two. One of them then steps
            while the policy acts for the other, if they have `send` and `recv`, like
            `towerpack_dataflow.envs.ProcessVectorEnv`.
        rollout: a `towerpack_dataflow.replay.RolloutBuffer` for them, or another `Rollout`.
        batch_size: the number of steps in one update.
        epochs: the number of times that each step is used for learning.
        objective: the cost.
        env_state: for exact resume, the state of environments that have none themselves, such as
            `towerpack_dataflow.envs.VectorEnvState(envs)`; for a list of two, a list.
        devices: devices such as "/gpu:0", or their number, with a tower each; see `SyncMultiGPUTrainer`.

    Raises:
        ConfigError: the configuration, or another argument, does not suit this trainer.

    Example:
        ```python
        PPOTrainer.for_env("CartPole-v1", seed=1, log_dir="train_log/cartpole").train()
        rollout = RolloutBuffer(envs.single_observation_space, envs.single_action_space, 128, envs.num_envs)
        PPOTrainer(config, envs, rollout, batch_size=256).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        envs: Environments,
        rollout: Rollout,
        *,
        batch_size: int = 64,
        epochs: int = 10,
        objective: PPOObjective | None = None,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None = None,
        devices: int | Sequence[str] | None = None,
    ) -> None:
        objective = PPOObjective() if objective is None else objective
        made = iterations_of(
            "PPOTrainer", config, envs, rollout, objective, batch_size, epochs, env_state, devices
        )
        super().__init__(*made, devices)

    @classmethod
    def for_env(
        cls,
        env: str | EnvMaker,
        settings: PPOSettings | None = None,
        *,
        seed: int | None = None,
        evaluation_episodes: int = 10,
        **config: Any,
    ) -> PPOTrainer:
        """Makes the environments, a default policy for their spaces, the rollout and the trainer.

        The policy is a `DefaultPolicyModel`. About 20 times in a training, the greedy policy plays seeded
        episodes in separate environments; `<log_dir>/max-evaluation_mean_return` keeps the best weights.

        Args:
            env: the name of a gymnasium environment, such as "CartPole-v1"; or a function that makes the
                given number of them as a `VectorEnv`. Observations of `Dict` and `Tuple` spaces are
                flattened.
            settings: the settings of the training; None: `PPOSettings.of(env)`.
            seed: as of `TrainConfig`.
            evaluation_episodes: the number of episodes in an evaluation; 0: no evaluations.
            config: further arguments of `TrainConfig`, such as `log_dir`, `resume`, `callbacks`, or a `model`
                that replaces the default one.

        Raises:
            ConfigError: an argument, or a space, is not supported.
            MissingExtraError: gymnasium is not installed; it comes with the extra `rl`.

        Example:
            ```python
            trainer = PPOTrainer.for_env("CartPole-v1", seed=0)
            trainer.train()
            ```
        """
        use = PPOSettings.of(env) if settings is None else settings
        envs = vector_envs(env, use.environments)
        if use.reward_scale != 1:
            envs = scaled_rewards(envs, use.reward_scale)
        if config.get("model") is None:
            config["model"] = DefaultPolicyModel.of(envs, use)
        rollout = rollout_for(envs, steps=use.steps, gamma=use.gamma, lam=use.lam, seed=seed)
        plan = use.iterations, use.updates_per_iteration, ITERATIONS_IN_EPOCH
        return cls(
            config_for_env(env, use, *plan, evaluation_episodes, {"seed": seed, **config}),
            envs,
            rollout,
            batch_size=use.batch_size,
            epochs=use.epochs,
            objective=PPOObjective(clip=use.clip, entropy=use.entropy),
            env_state=state_for(envs),
        )


@final
class A2CTrainer(AgentTrainer):
    """Trains a policy by synchronous advantage actor-critic (Mnih et al. 2016): one update for each rollout.

    Args:
        config: as for `PPOTrainer`.
        envs: as for `PPOTrainer`.
        rollout: as for `PPOTrainer`; a short one, of 5 to 20 steps of each environment.
        objective: the cost.
        env_state: as for `PPOTrainer`.
        devices: as for `PPOTrainer`.

    Raises:
        ConfigError: as for `PPOTrainer`.

    Example:
        ```python
        rollout = RolloutBuffer(envs.single_observation_space, envs.single_action_space, 5, envs.num_envs)
        A2CTrainer(config, envs, rollout).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        envs: Environments,
        rollout: Rollout,
        *,
        objective: A2CObjective | None = None,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None = None,
        devices: int | Sequence[str] | None = None,
    ) -> None:
        objective = A2CObjective() if objective is None else objective
        made = iterations_of("A2CTrainer", config, envs, rollout, objective, None, 1, env_state, devices)
        super().__init__(*made, devices)


def iterations_of(
    trainer: str,
    config: TrainConfig,
    envs: Environments,
    rollout: Rollout,
    objective: PolicyObjective,
    batch_size: int | None,
    epochs: int,
    env_state: EnvironmentState | Sequence[EnvironmentState] | None,
    devices: int | Sequence[str] | None,
) -> tuple[TrainConfig, RolloutCollector, int]:
    """Returns configuration, collector and number of updates of iterations: fill a rollout, learn from it."""
    groups: Sequence[Any] = envs if isinstance(envs, (list, tuple)) else [envs]
    count = sum(int(group.num_envs) for group in groups)
    if rollout.environments != count:
        raise ConfigError(
            f"rollout has room for {rollout.environments} environments, but envs has {count}. Make it for "
            f"these: RolloutBuffer(..., environments={count})."
        )
    whole = rollout.steps * count
    size = at_least(trainer, "batch_size", whole if batch_size is None else batch_size)
    if size > whole:
        raise ConfigError(
            f"{trainer}(batch_size={size}): expected at most {whole}, the number of steps of all "
            "environments in a rollout."
        )
    updates = updates_of(trainer, -(-whole // size) * at_least(trainer, "epochs", epochs), devices)
    varies = whole % size or any(autoreset_mode(group) == "NEXT_STEP" for group in groups)
    source = RolloutInput(None if varies else size)
    collector = RolloutCollector(envs, source, rollout, size, epochs, updates, env_state)
    config = attrs.evolve(config, model=OnPolicyModel(config.model, objective), data=source)
    return config, collector, updates
