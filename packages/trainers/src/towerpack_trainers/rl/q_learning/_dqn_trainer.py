"""The trainer of agents that learn action values from a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_inputsource import RolloutInput

from ..._argument_checks import at_least
from ..._errors import ConfigError
from ..._renamed import renamed_arguments
from ...config._train_config import TrainConfig
from .._agent_trainer import AgentTrainer
from .._protocols import Environments, EnvironmentState, Memory
from ._exploration import LinearEpsilon
from ._off_policy_model import OffPolicyModel
from ._q_objectives import DoubleQ, QObjective
from ._replay_collector import IterationSettings, ReplayCollector, errors_of
from ._target_network import TargetCopy, TargetNetwork, TargetRule

__all__ = ["DQNTrainer"]

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
        model, source = OffPolicyModel(config.model, objective), RolloutInput()
        settings = IterationSettings(
            at_least("DQNTrainer", "batch_size", batch_size),
            _vector_steps(steps_per_iteration, envs),
            at_least("DQNTrainer", "updates_per_iteration", updates_per_iteration),
            at_least("DQNTrainer", "learning_starts", learning_starts, 0),
        )
        _check_memory(memory, objective, batch_size, envs)
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
