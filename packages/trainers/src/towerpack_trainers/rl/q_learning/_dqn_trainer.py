"""The trainer of agents that learn the values of actions from a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_inputsource import RolloutInput

from ..._argument_checks import at_least
from ..._errors import ConfigError
from ...config._train_config import TrainConfig
from .._agent_trainer import AgentTrainer
from .._protocols import Environments, EnvironmentState, Memory
from ._exploration import LinearEpsilon
from ._off_policy_model import OffPolicyModel
from ._q_objectives import DoubleQ, QObjective
from ._replay_collector import Amounts, ReplayCollector, errors_of
from ._target_network import TargetCopy, TargetNetwork, TargetRule

__all__ = ["DQNTrainer"]

_UPDATES_IN_EPOCH = 1000


@final
class DQNTrainer(AgentTrainer):
    """Trains the values of actions by transitions of a memory (Mnih et al. 2015), or a successor of DQN.

    In turn: the greedy policy, with some actions at random, makes `steps_per_turn` steps, which are added to
    the memory; then come `updates_per_turn` updates by samples of it. `global_step` counts updates, and
    `env_steps` the steps of environments. An epoch is about 1000 updates, unless
    `TrainConfig(steps_per_epoch=…)` says otherwise.

    What the parts are decides which algorithm it is: `DoubleQ` targets, a `QModel` that ends in `dueling`, a
    memory of several steps, and one with `PrioritizedSampling`, the batches of which are drawn one at a time
    as each depends on the errors of the one before.

    After the training, a memory that was empty before is empty again.

    Args:
        config: the training; its model is a `QModel`, and it has no data.
        envs: as for `PPOTrainer`; their actions are `Discrete`.
        memory: a `towerpack_dataflow.replay.ReplayBuffer` for their spaces, or another `Memory`. One with
            `frame_stack=4` is made for single frames: of observations that are stacks of four, it gets the
            newest frame, and the others are those of the steps before. Its padding has to be that of the
            environments.
        target: what the values are trained by.
        target_network: how the network follows that the targets are made by.
        exploration: how many actions are random.
        batch_size: transitions of one update, on each device.
        steps_per_turn: steps of all environments together; a multiple of their number.
        updates_per_turn: updates after these.
        learning_starts: steps of all environments before the first update.
        env_state: for exact resume, as for `PPOTrainer`.
        devices: as for `PPOTrainer`.

    Raises:
        ConfigError: the configuration, or another argument, does not suit this trainer.
    """

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
        steps_per_turn: int | None = None,
        updates_per_turn: int = 1,
        learning_starts: int = 1000,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None = None,
        devices: int | Sequence[str] | None = None,
    ) -> None:
        objective = DoubleQ() if target is None else target
        model, source = OffPolicyModel(config.model, objective), RolloutInput()
        amounts = Amounts(
            at_least("DQNTrainer", "batch_size", batch_size),
            _moments(steps_per_turn, envs),
            at_least("DQNTrainer", "updates_per_turn", updates_per_turn),
            at_least("DQNTrainer", "learning_starts", learning_starts, 0),
        )
        _check_memory(memory, objective, batch_size, envs)
        self._target = TargetNetwork(TargetCopy() if target_network is None else target_network)
        collector = ReplayCollector(
            envs, source, memory, LinearEpsilon() if exploration is None else exploration, amounts, env_state
        )
        self._replay = collector
        if config.steps_per_epoch is None:
            turns = -(-_UPDATES_IN_EPOCH // amounts.updates)
            config = attrs.evolve(config, steps_per_epoch=turns * amounts.updates)
        config = attrs.evolve(config, model=model, data=source)
        super().__init__(config, collector, amounts.updates, devices)

    def _build_train_op(self) -> tf.Operation:
        train_op = super()._build_train_op()
        self._replay.observe(errors_of(self.tower_func.training))
        return self._target.within(train_op)

    def _own_callbacks(self) -> list[Callback]:
        return [*super()._own_callbacks(), self._target]


def _moments(steps: int | None, envs: Environments) -> int:
    """Returns how often all environments are stepped in a turn."""
    groups: Sequence[Any] = envs if isinstance(envs, (list, tuple)) else [envs]
    count = sum(int(group.num_envs) for group in groups)
    steps = at_least("DQNTrainer", "steps_per_turn", count if steps is None else steps)
    if steps % count:
        raise ConfigError(
            f"DQNTrainer(steps_per_turn={steps}): envs are {count} environments, which are stepped together. "
            "Choose a multiple of that number."
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
                f"{type(objective).__name__}({name}={wanted}): the memory has {name}={has}, and it is the "
                f"memory that joins steps. Make it by ReplayBuffer(..., {name}={wanted})."
            )
    group: Any = envs[0] if isinstance(envs, (list, tuple)) else envs
    shape, frames = tuple(group.single_observation_space.shape), memory.frame_stack
    if frames > 1 and shape[:1] != (frames,):
        raise ConfigError(
            f"memory has frame_stack={frames}, so observations are stacks of as many frames along their "
            f"first axis; received environments with observations of shape {shape}."
        )
