"""DQN: agents that learn action values from a memory of transitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every, StepFetch, add_moving_summary
from towerpack_inputsource import RolloutInput, memory_for, state_for
from towerpack_layers import freeze_variables

from .._argument_checks import at_least, renamed_arguments
from .._errors import ConfigError
from ..config import TrainConfig
from ..towers._model_desc import ModelDesc
from ..towers._predictor import Predictor
from ._acting import AgentTrainer, Collector
from ._default_agents import (
    DefaultQModel,
    DQNSettings,
    EnvMaker,
    config_for_env,
    vector_envs,
)
from ._protocols import Environments, EnvironmentState, Memory
from ._q_model import TARGET_SCOPE, DoubleQ, QModel, QObjective, TargetCopy, TargetNetwork, TargetRule, huber

__all__ = [
    "ABSOLUTE_ERROR",
    "DQNTrainer",
    "IterationSettings",
    "LinearEpsilon",
    "OffPolicyModel",
    "ReplayCollector",
    "TransitionTensors",
    "errors_of",
    "explored",
]


@final
@attrs.frozen
class LinearEpsilon:
    """The probability of a random action: decreases linearly from `start` to `end`.

    Args:
        start: the probability at the beginning.
        end: the probability after `env_steps` and from then on.
        env_steps: the length of the decrease, in steps of all environments.

    Raises:
        ConfigError: a value is not a probability, or `env_steps` is below 1.

    Example:
        >>> exploration = LinearEpsilon(1.0, 0.1, env_steps=100)
        >>> [round(exploration.at(steps), 2) for steps in (0, 50, 100, 1000)]
        [1.0, 0.55, 0.1, 0.1]
    """

    start: float = 1.0
    end: float = 0.05
    env_steps: int = 10_000

    def __attrs_post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ConfigError(f"LinearEpsilon({name}={value!r}): expected a probability, from 0 to 1.")
        if not self.env_steps >= 1:
            raise ConfigError(f"LinearEpsilon(env_steps={self.env_steps!r}): expected at least 1.")

    def at(self, env_steps: int) -> float:
        """Returns the probability after the given number of environment steps."""
        done = min(env_steps / self.env_steps, 1.0)
        return self.start + done * (self.end - self.start)


def explored(greedy: np.ndarray, choices: int, epsilon: float, rng_key: tuple[int, int]) -> np.ndarray:
    """Replaces each action by a random one with the given probability.

    Args:
        greedy: the actions.
        choices: the number of possible actions.
        epsilon: the probability.
        rng_key: seed and number of the call; the random numbers depend on nothing else.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array(rng_key, np.uint64)))
    at_random = generator.random(len(greedy)) < epsilon
    return np.where(at_random, generator.integers(choices, size=len(greedy)), greedy)


ABSOLUTE_ERROR = "absolute_error"
"""The name of the absolute errors, float32 [batch]."""


@final
class TransitionTensors(NamedTuple):
    """A batch of transitions, as the inputs of the graph; the first axis of all is the batch.

    Attributes:
        observation: the observation before the first step.
        action: int64, the action of the first step.
        reward: float32, the discounted sum over all steps.
        next_observation: the observation after the last step.
        discount: float32, the discount of its value.
        weight: float32, the weight of the error.
    """

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    next_observation: tf.Tensor
    discount: tf.Tensor
    weight: tf.Tensor


@final
class OffPolicyModel(ModelDesc):
    """A model that learns from transitions: its training towers have a cost, the others act.

    Args:
        values: the model to train.
        objective: makes the targets.

    Raises:
        ConfigError: the model is not a `QModel`, or `objective` is not a `QObjective`.
    """

    data_from_trainer = True

    def __init__(self, values: ModelDesc | None, objective: QObjective) -> None:
        if not isinstance(values, QModel):
            raise ConfigError(f"Agents of this kind need TrainConfig(model=a QModel); received {values!r}.")
        if not isinstance(objective, QObjective):
            raise ConfigError(f"target={objective!r}: expected a QObjective, such as DoubleQ() or MaxQ().")
        self._values, self._objective = values, objective

    def inputs(self) -> Sequence[tf.TensorSpec]:
        """Returns the components of a batch."""
        [observation] = self._values.inputs()
        after = tf.TensorSpec(observation.shape, observation.dtype, "next_observation")
        reward, discount, weight = (
            tf.TensorSpec([None], tf.float32, name) for name in ("reward", "discount", "weight")
        )
        return [observation, tf.TensorSpec([None], tf.int64, "action"), reward, after, discount, weight]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            self._values.build_graph(inputs[0])
            return None
        return self._cost(TransitionTensors(*inputs))

    def _cost(self, batch: TransitionTensors) -> tf.Tensor:
        values = self._values.checked_q_values(batch.observation)
        value = tf.gather(values, batch.action, batch_dims=1)
        target = tf.stop_gradient(batch.reward + batch.discount * self._next_value(batch.next_observation))
        error = value - tf.identity(target, "value_target")
        tf.abs(error, name=ABSOLUTE_ERROR)
        mean_value = tf.reduce_mean(value, name="mean_value")
        cost = tf.reduce_mean(batch.weight * huber(error, self._objective.delta), name="cost")
        add_moving_summary(cost, mean_value)
        return cost

    def _next_value(self, observation: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope(TARGET_SCOPE), freeze_variables(stop_gradient=False, skip_collection=True):
            target = self._values.checked_q_values(observation)

        def online() -> tf.Tensor:
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                return self._values.checked_q_values(observation)

        return self._objective.next_value(online, target)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the optimizer of the action values."""
        return self._values.optimizer()


_DIRECTORY = "memory"


@final
@attrs.frozen
class IterationSettings:
    """The settings of acting and learning of an agent.

    Attributes:
        batch_size: the number of transitions in an update of one tower.
        vector_steps: the number of times that all environments are stepped in an iteration.
        updates: the number of updates in an iteration.
        learning_starts: the number of steps of all environments before the first update.
    """

    batch_size: int
    vector_steps: int
    updates: int
    learning_starts: int


# Small samples of several updates are drawn at once: drawing 128 transitions alone takes seven times as long
# as drawing them together with others.
_DRAWN_TOGETHER = 1 << 18  # bytes


@final
class ReplayCollector(Collector):
    """Adds steps of the newest policy, with some random actions, to a memory, and learns from samples.

    With uniform sampling, the batches of an iteration are drawn before its updates, so that these can run in
    one session call. With priorities, each batch is drawn after the errors of the previous one are known.

    Args:
        envs: the environments.
        source: the input of the training.
        memory: the memory of transitions of these environments.
        exploration: the fraction of random actions.
        settings: the settings of acting and learning.
        env_state: see `Collector`.
    """

    def __init__(
        self,
        envs: Environments,
        source: RolloutInput,
        memory: Memory,
        exploration: LinearEpsilon,
        settings: IterationSettings,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None,
    ) -> None:
        super().__init__(envs, source, settings.updates, env_state)
        self._memory, self._exploration, self._settings = memory, exploration, settings
        self._choices = int(self.steps.parts[0].envs.single_action_space.n)
        self._found = None if len(memory) else memory.state_dict()
        # Batches are drawn with the memory's random numbers, so their earlier state is saved.
        self._drawn_from: dict[str, Any] = {}
        self._pending: list[np.ndarray] = []
        self._errors: list[tf.Tensor] = []

    def observe(self, errors: Sequence[tf.Tensor]) -> None:
        """Sets the tensors of each tower's errors, if priorities depend on them."""
        if self._memory.prioritized:
            self._errors = list(errors)

    # ---- acting

    def _setup_graph(self) -> None:
        predict = self.trainer.get_predictor(["observation"], self._outputs())
        self._predict = cast(Predictor, predict).in_calling_thread()

    def _outputs(self) -> Sequence[str]:
        return ["greedy_action"]

    def _act(self, observation: np.ndarray) -> Sequence[np.ndarray]:
        predict = self._predict
        assert predict is not None
        self._action_count += 1
        epsilon = self._exploration.at(self.trainer.loop.env_steps)
        began = perf_counter()
        [greedy] = predict(observation)
        self.time_breakdown.inference += perf_counter() - began
        return [explored(greedy, self._choices, epsilon, (self._seed, self._action_count))]

    def _make_data(self) -> None:
        self._act_for(self._settings.vector_steps)
        loop, memory, begun = self.trainer.loop, self._memory, self._action_count
        # A memory that is too small for a batch, since it is full of first frames, raises an error when it
        # is sampled.
        most = 2 * memory.capacity
        wanted = self._settings.batch_size * self._towers
        while loop.env_steps < self._settings.learning_starts or (
            len(memory) < wanted and self._action_count - begun < most
        ):
            self._act_for(self._settings.vector_steps)
        self._drawn_from = memory.state_dict()

    def _act_for(self, vector_steps: int) -> None:
        for observation, (action,), happened in self._transitions(vector_steps):
            rows = slice(None) if happened.valid.all() else happened.valid
            if not happened.valid.any():
                continue
            self._memory.add(
                self._newest(observation)[rows],
                action[rows],
                happened.reward[rows],
                happened.terminated[rows],
                happened.truncated[rows],
                self._newest(happened.next_observation)[rows],
                environments=np.flatnonzero(happened.valid),
            )

    def _newest(self, observation: np.ndarray) -> np.ndarray:
        """Returns the part of an observation that the memory stores: of stacked frames, the newest one."""
        return observation[:, -1] if self._memory.frame_stack > 1 else observation

    # ---- learning

    def _batches(self) -> Iterator[Sequence[np.ndarray]]:
        wanted, left = self._settings.batch_size * self._towers, self._updates
        observations = self.steps.parts[0].envs.single_observation_space
        size = 2 * wanted * int(np.prod(observations.shape)) * np.dtype(observations.dtype).itemsize
        while left:
            updates = max(1, min(left, _DRAWN_TOGETHER // size, len(self._memory) // wanted))
            yield from self._batches_of(updates)
            left -= updates

    def _batches_of(self, updates: int) -> Iterator[Sequence[np.ndarray]]:
        """Draws for all towers at once, so that learning does not depend on their number."""
        size, count = self._settings.batch_size, self._settings.batch_size * self._towers * updates
        batch = self._memory.sample(count)
        parts = (
            batch.observation,
            batch.action,
            batch.reward,
            batch.next_observation,
            batch.discount,
            batch.weight,
        )
        if self._errors:
            self._pending.append(batch.indices)
        for begin in range(0, count, size):
            yield tuple(part[begin : begin + size] for part in parts)

    def _put(self, used: int) -> None:
        if not self._errors:
            super()._put(used)
            return
        self._source.put_all(self._batches_of(1))

    def step_fetches(self) -> Sequence[StepFetch]:
        """Returns the errors, if priorities depend on them."""
        return [StepFetch(self._errors, self._learned)] if self._errors else []

    def step_period(self) -> Every:
        """Returns the length of an iteration, or of an update if the next batch depends on it."""
        return Every(steps=1) if self._errors else super().step_period()

    def _learned(self, errors: Sequence[np.ndarray]) -> None:
        self._memory.update_priorities(self._pending.pop(), np.concatenate(errors))

    def _after_triggers(self) -> None:
        super()._after_triggers()
        if self._errors and not self._pending and not self._iteration_is_over():
            self._put(0)

    def _end_iteration(self) -> None:
        self._drawn_from = self._memory.state_dict()

    # ---- the memory's state

    def _before_train(self) -> None:
        self._pending.clear()
        if self._restored is None:
            self._memory.break_episodes()
        super()._before_train()

    def _after_train(self) -> None:
        # As with flows: a second training, such as one after a dry run, begins in the same state.
        if self._found is not None:
            self._memory.load_state_dict(self._found)

    def _begin_anew(self) -> None:
        self._memory.break_episodes()

    def _describe_iteration(self) -> str:
        settings, count = self._settings, self.steps.num_envs
        return (
            f"{settings.vector_steps * count:,} steps, {settings.vector_steps} of each environment, then "
            f"{settings.updates} updates by batches of {settings.batch_size} from a memory of "
            f"{self._memory.capacity:,} transitions, after the first {settings.learning_starts:,} steps"
        )

    def _data_state(self) -> dict[str, Any]:
        return self._memory.state_dict() if self._errors else self._drawn_from

    def _save_data(self, directory: Path) -> None:
        self._memory.link_into(directory / _DIRECTORY)

    def _load_data(self, state: dict[str, Any], directory: Path) -> None:
        self._memory.load_state_dict(state, directory / _DIRECTORY)
        self._drawn_from = state


def errors_of(towers: Sequence[Any]) -> list[tf.Tensor]:
    """Returns the errors of the training towers."""
    return [tower.get_tensors([ABSOLUTE_ERROR])[0] for tower in towers]


_UPDATES_IN_EPOCH = 1000


@final
class DQNTrainer(AgentTrainer):
    """Trains action values on transitions of a memory, by DQN (Mnih et al. 2015) or one of its successors.

    In each iteration, the greedy policy, with some random actions, makes `steps_per_iteration` steps, which
    are added to the memory; then come `updates_per_iteration` updates on samples of it. `global_step` counts
    updates, and `env_steps` the steps of environments. An epoch is about 1000 updates, unless
    `TrainConfig(steps_per_epoch=…)` is given.

    The parts determine the algorithm: `DoubleQ` targets, a `QModel` that ends in `dueling`, a memory of
    several steps, and a memory with `PrioritizedSampling`. With the last one, batches are drawn one at a
    time, since each depends on the errors of the previous one.

    After the training, a memory that was empty before is empty again.

    Args:
        config: the training; its model is a `QModel`, and it has no data.
        envs: as for `PPOTrainer`; their actions are `Discrete`.
        memory: a `towerpack_dataflow.replay.ReplayBuffer` for their spaces, or another `Memory`. A memory
            with `frame_stack=4` stores single frames: of observations that are stacks of four, it receives
            only the newest frame, and takes the others from earlier steps. Its padding must be that of the
            environments.
        target: makes the targets of the values.
        target_network: the rule for updating the target network.
        exploration: the fraction of random actions.
        batch_size: the number of transitions in one update, on each device.
        steps_per_iteration: the number of steps of all environments together; a multiple of the number of
            environments.
        updates_per_iteration: the number of updates after these steps.
        learning_starts: the number of steps of all environments before the first update.
        env_state: for exact resume, as for `PPOTrainer`.
        devices: as for `PPOTrainer`.

    Raises:
        ConfigError: the configuration, or another argument, does not suit this trainer.

    Example:
        ```python
        DQNTrainer.for_env("CartPole-v1", seed=1, log_dir="train_log/cartpole").train()
        DQNTrainer(config, envs, memory, target=DoubleQ(), target_network=TargetCopy(every=500)).train()
        ```
    """

    @renamed_arguments(steps_per_turn="steps_per_iteration", updates_per_turn="updates_per_iteration")
    def __init__(
        self,
        config: TrainConfig,
        envs: Environments,
        memory: Memory,
        *,
        target: QObjective | None = None,
        target_network: TargetRule | None = None,
        exploration: LinearEpsilon | None = None,
        batch_size: int = 32,
        steps_per_iteration: int | None = None,
        updates_per_iteration: int = 1,
        learning_starts: int = 1000,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None = None,
        devices: int | Sequence[str] | None = None,
    ) -> None:
        objective = DoubleQ() if target is None else target
        model = OffPolicyModel(config.model, objective)
        settings = IterationSettings(
            at_least("DQNTrainer", "batch_size", batch_size),
            _vector_steps(steps_per_iteration, envs),
            at_least("DQNTrainer", "updates_per_iteration", updates_per_iteration),
            at_least("DQNTrainer", "learning_starts", learning_starts, 0),
        )
        _check_memory(memory, objective, batch_size, envs)
        source = RolloutInput(settings.batch_size)
        self._target = TargetNetwork(TargetCopy() if target_network is None else target_network)
        collector = ReplayCollector(
            envs, source, memory, LinearEpsilon() if exploration is None else exploration, settings, env_state
        )
        self._replay = collector
        if config.steps_per_epoch is None:
            iterations = -(-_UPDATES_IN_EPOCH // settings.updates)
            config = attrs.evolve(config, steps_per_epoch=iterations * settings.updates)
        config = attrs.evolve(config, model=model, data=source)
        super().__init__(config, collector, settings.updates, devices)

    @classmethod
    def for_env(
        cls,
        env: str | EnvMaker,
        settings: DQNSettings | None = None,
        *,
        seed: int | None = None,
        evaluation_episodes: int = 10,
        **config: Any,
    ) -> DQNTrainer:
        """Makes the environments, a default network for their observations, the memory and the trainer.

        The network is a `DefaultQModel`, and its targets are `DoubleQ`. Evaluations are those of
        `PPOTrainer.for_env`.

        Args:
            env: as for `PPOTrainer.for_env`; its actions are `Discrete`.
            settings: the settings of the training; None: `DQNSettings.of(env)`.
            seed: as of `TrainConfig`.
            evaluation_episodes: the number of episodes in an evaluation; 0: no evaluations.
            config: further arguments of `TrainConfig`, as for `PPOTrainer.for_env`.

        Raises:
            ConfigError: an argument, or a space, is not supported.
            MissingExtraError: gymnasium is not installed; it comes with the extra `rl`.

        Example:
            ```python
            trainer = DQNTrainer.for_env("CartPole-v1", seed=0)
            trainer.train()
            ```
        """
        use = DQNSettings.of(env) if settings is None else settings
        envs = vector_envs(env, use.environments)
        if config.get("model") is None:
            config["model"] = DefaultQModel.of(envs, use)
        options = {"n_step": use.n_step, "gamma": use.gamma, "frame_stack": use.frame_stack}
        plan = use.iterations, use.updates, use.iterations
        return cls(
            config_for_env(env, use, *plan, evaluation_episodes, {"seed": seed, **config}),
            envs,
            memory_for(envs, use.capacity, seed=seed, **options),
            target=DoubleQ(n_step=use.n_step, gamma=use.gamma),
            target_network=TargetCopy(use.target_every),
            exploration=LinearEpsilon(1.0, use.epsilon, use.exploration_steps),
            batch_size=use.batch_size,
            steps_per_iteration=use.steps,
            updates_per_iteration=use.updates,
            learning_starts=use.learning_starts,
            env_state=state_for(envs),
        )

    def _build_train_op(self) -> tf.Operation:
        train_op = super()._build_train_op()
        self._replay.observe(errors_of(self.tower_func.training))
        return self._target.within(train_op)

    def _own_callbacks(self) -> list[Callback]:
        return [*super()._own_callbacks(), self._target]


def _vector_steps(steps: int | None, envs: Environments) -> int:
    """Returns the number of times that all environments are stepped in an iteration."""
    groups: Sequence[Any] = envs if isinstance(envs, (list, tuple)) else [envs]
    count = sum(int(group.num_envs) for group in groups)
    steps = at_least("DQNTrainer", "steps_per_iteration", count if steps is None else steps)
    if steps % count:
        raise ConfigError(
            f"DQNTrainer(steps_per_iteration={steps}): envs has {count} environments, which are stepped "
            "together. Choose a multiple of that number."
        )
    return steps // count


def _check_memory(memory: Memory, objective: QObjective, batch_size: int, envs: Environments) -> None:
    if memory.capacity < batch_size:
        raise ConfigError(
            f"DQNTrainer(batch_size={batch_size}): the memory has room for {memory.capacity} transitions. "
            "Make it larger."
        )
    for name in ("n_step", "gamma"):
        wanted, has = getattr(objective, name), getattr(memory, name)
        if wanted is not None and wanted != has:
            raise ConfigError(
                f"{type(objective).__name__}({name}={wanted}): the memory has {name}={has}, and the memory "
                f"joins the steps. Make it with ReplayBuffer(..., {name}={wanted})."
            )
    group: Any = envs[0] if isinstance(envs, (list, tuple)) else envs
    shape, frames = tuple(group.single_observation_space.shape), memory.frame_stack
    if frames > 1 and shape[:1] != (frames,):
        raise ConfigError(
            f"memory has frame_stack={frames}; expected observations that are stacks of {frames} frames "
            f"along their first axis, but the environments have observations of shape {shape}."
        )
