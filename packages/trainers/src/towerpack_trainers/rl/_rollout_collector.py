"""Rollouts: the data of agents that learn from the steps of their newest policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from towerpack_inputsource import RolloutInput

from ._collector import Collector
from ._protocols import Environments, EnvironmentState, Rollout
from .environments import Transitions

__all__ = ["RolloutCollector"]

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
                batch.action,
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
