"""Transitions: the data of agents that learn from a memory of earlier policies' steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Every, StepFetch
from towerpack_inputsource import RolloutInput

from ...towers._predictor import Predictor
from .._collector import Collector
from .._protocols import Environments, EnvironmentState, Memory
from ._exploration import LinearEpsilon, explored
from ._off_policy_model import ABSOLUTE_ERROR

__all__ = ["IterationSettings", "ReplayCollector", "errors_of"]

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
        [greedy] = self.time_breakdown.in_inference(lambda: predict(observation))
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
        for _ in range(self._updates):
            yield from self._batches_of_update()

    def _batches_of_update(self) -> Iterator[Sequence[np.ndarray]]:
        """Draws for all towers at once, so that learning does not depend on their number."""
        size = self._settings.batch_size
        batch = self._memory.sample(size * self._towers)
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
        for begin in range(0, size * self._towers, size):
            yield tuple(part[begin : begin + size] for part in parts)

    def _put(self, used: int) -> None:
        if not self._errors:
            super()._put(used)
            return
        self._source.put_all(self._batches_of_update())

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
