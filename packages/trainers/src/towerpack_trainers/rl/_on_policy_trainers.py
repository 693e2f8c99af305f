"""Trainers of agents that learn from the data of their newest policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import attrs

from towerpack_inputsource import RolloutInput

from .._argument_checks import at_least
from .._errors import ConfigError
from ..config._train_config import TrainConfig
from ._agent_trainer import AgentTrainer
from ._objectives import A2CObjective, PolicyObjective, PPOObjective
from ._on_policy_model import OnPolicyModel
from ._protocols import Environments, EnvironmentState, Rollout
from ._rollout_collector import RolloutCollector

__all__ = ["A2CTrainer", "PPOTrainer"]


class _OnPolicyTrainer(AgentTrainer):
    """Alternates between filling a rollout and learning from it."""

    def __init__(
        self,
        config: TrainConfig,
        envs: Environments,
        rollout: Rollout,
        objective: PolicyObjective,
        batch_size: int | None,
        epochs: int,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None,
        devices: int | Sequence[str] | None,
    ) -> None:
        name, source = type(self).__name__, RolloutInput()
        whole = _size_of(rollout, envs)
        size = at_least(name, "batch_size", whole if batch_size is None else batch_size)
        if size > whole:
            raise ConfigError(
                f"{name}(batch_size={size}): expected at most {whole}, the number of steps of all "
                "environments in a rollout."
            )
        batches = -(-whole // size) * at_least(name, "epochs", epochs)
        updates = self._updates_of(batches, devices)
        collector = RolloutCollector(envs, source, rollout, size, epochs, updates, env_state)
        config = attrs.evolve(config, model=OnPolicyModel(config.model, objective), data=source)
        super().__init__(config, collector, updates, devices)


@final
class PPOTrainer(_OnPolicyTrainer):
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
        super().__init__(config, envs, rollout, objective, batch_size, epochs, env_state, devices)


@final
class A2CTrainer(_OnPolicyTrainer):
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
        super().__init__(config, envs, rollout, objective, None, 1, env_state, devices)


def _size_of(rollout: Rollout, envs: Environments) -> int:
    """Returns the number of steps of all environments in a rollout."""
    groups: Sequence[Any] = envs if isinstance(envs, (list, tuple)) else [envs]
    count = sum(int(group.num_envs) for group in groups)
    if rollout.environments != count:
        raise ConfigError(
            f"rollout has room for {rollout.environments} environments, but envs has {count}. Make it for "
            f"these: RolloutBuffer(..., environments={count})."
        )
    return rollout.steps * count
