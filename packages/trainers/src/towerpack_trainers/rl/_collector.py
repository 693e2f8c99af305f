"""Makes the data of a training by acting in environments, a turn at a time."""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from towerpack_callbacks import Callback, Every
from towerpack_inputsource import RolloutInput

from .._errors import ConfigError
from ..towers._predictor import Predictor
from ._protocols import EnvironmentState, VectorEnvironments
from ._spaces import action_spec
from ._time_shares import TimeShares
from ._vector_steps import Transitions, VectorSteps

__all__ = ["Collector"]

_log = logging.getLogger("towerpack_trainers")
_ARRAYS = "environments.npz"


class Collector(Callback):
    """Acts in environments, then puts the batches of a turn, which is a number of updates, into the graph.

    It has to come after all savers: a turn begins in `_after_triggers`, after the checkpoints of that moment
    were written. So a checkpoint at the end of a turn holds no batches; one amid a turn holds what they were
    drawn from, the state before, and how many were used.

    Subclasses act and remember in `_make_data`, and draw in `_batches`.

    Args:
        envs: the environments.
        source: the input of the training.
        updates: how many updates a turn has.
        env_state: the state of the environments; None: that of `envs`, if these have one.

    Attributes:
        shares: where the time goes.
        steps: the environments, as they are stepped.
    """

    chief_only = False

    def __init__(
        self,
        envs: VectorEnvironments,
        source: RolloutInput,
        updates: int,
        env_state: EnvironmentState | None = None,
    ) -> None:
        self.steps = VectorSteps(envs, action_spec(envs.single_action_space))
        self.shares = TimeShares()
        self._source, self._updates = source, updates
        self._env_state = _state_of(envs, env_state)
        self._restored: dict[str, Any] | None = None
        self._turn_begin = 0
        self._predict: Predictor | None = None
        self._acts = 0
        self._seed, self._towers = 0, 1

    def prepare(self, seed: int, towers: int) -> None:
        """Takes what the trainer knows once it is made.

        Args:
            seed: of the run.
            towers: how many towers take a batch in each update.
        """
        self._seed, self._towers = seed, towers

    # ---- what subclasses override

    @abc.abstractmethod
    def _outputs(self) -> Sequence[str]:
        """Names what the policy is asked for."""

    @abc.abstractmethod
    def _make_data(self) -> None:
        """Acts, and remembers what happened. Before it returns, it keeps the state that batches depend on."""

    @abc.abstractmethod
    def _batches(self) -> Iterable[Sequence[np.ndarray]]:
        """Draws the batches of a turn, in the order of the model's inputs."""

    @abc.abstractmethod
    def _end_turn(self) -> None:
        """Forgets what no later turn needs."""

    @abc.abstractmethod
    def _data_state(self) -> dict[str, Any]:
        """Returns the state that the batches of this turn depend on, as JSON values."""

    @abc.abstractmethod
    def _save_data(self, directory: Path) -> None:
        """Puts what happened into a directory."""

    @abc.abstractmethod
    def _load_data(self, state: dict[str, Any], directory: Path) -> None:
        """Restores what the two methods above have kept."""

    # ---- the turns

    def _setup_graph(self) -> None:
        predict = self.trainer.get_predictor(["observation", "draw"], self._outputs())
        self._predict = cast(Predictor, predict).in_calling_thread()

    def step_period(self) -> Every:
        """Returns the length of a turn."""
        return Every(steps=self._updates)

    def _before_train(self) -> None:
        if self._restored is None:
            self.shares.in_environment(lambda: self.steps.reset(self._seed))
            self._begin_turn()
        elif self._turn_is_over():
            self._begin_turn()
        else:
            self._put(self.global_step - self._turn_begin)

    def _trigger_step(self) -> None:
        if self._turn_is_over():
            self._end_turn()

    def _after_triggers(self) -> None:
        loop = self.trainer.loop
        if self._turn_is_over() and not (loop.is_last_step and loop.epoch_num == loop.max_epoch):
            self._begin_turn()

    def _turn_is_over(self) -> bool:
        return self.global_step - self._turn_begin >= self._updates

    def _begin_turn(self) -> None:
        self._turn_begin = self.global_step
        self.shares.in_acting(self._make_data)
        self._put(0)

    def _put(self, used: int) -> None:
        for batch in islice(self._batches(), used * self._towers, None):
            self._source.put(batch)

    # ---- acting

    def _act(self, observation: np.ndarray) -> Sequence[np.ndarray]:
        """Asks the policy. Each time it draws other numbers, which depend on seed and time alone."""
        assert self._predict is not None
        predict = self._predict
        self._acts += 1
        draw = np.array([self._seed, self._acts], np.int64)
        outputs: list[np.ndarray] = self.shares.in_inference(lambda: predict(observation, draw))
        return outputs

    def _step(self, action: np.ndarray) -> Transitions:
        self.shares.in_environment(lambda: self.steps.send(action))
        happened = self.shares.in_environment(self.steps.receive)
        valid = int(np.count_nonzero(happened.valid))
        self.shares.frames += valid
        self.trainer.loop.env_steps += valid
        return happened

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns where the turn is, and what it depends on."""
        if not hasattr(self.steps, "observation"):
            return {}
        return {
            "turn_begin": self._turn_begin,
            "acts": self._acts,
            "envs": None if self._env_state is None else self._env_state.state_dict(),
            "data": self._data_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes a state; the arrays that belong to it come by `load_files`."""
        self._restored = state or None

    def save_files(self, directory: Path) -> None:
        """Puts observations, and what happened, into a directory."""
        arrays: dict[str, Any] = self.steps.arrays()
        np.savez(directory / _ARRAYS, **arrays)
        self._save_data(directory)

    def load_files(self, directory: Path) -> None:
        """Restores the run's environments and data."""
        state = self._restored
        assert state is not None
        self._turn_begin, self._acts = int(state["turn_begin"]), int(state["acts"])
        with np.load(directory / _ARRAYS, allow_pickle=False) as arrays:
            self.steps.load_arrays(arrays)
        self._load_data(state["data"], directory)
        if self._env_state is not None and state["envs"] is not None:
            self._env_state.load_state_dict(state["envs"])
            if self._env_state.exact:
                return
        _log.warning("The environments cannot go on exactly: they are reset, and new episodes begin.")
        self.steps.reset(self._seed + self._acts)


def _state_of(envs: Any, given: EnvironmentState | None) -> EnvironmentState | None:
    if given is None and hasattr(envs, "state_dict") and hasattr(envs, "load_state_dict"):
        given = envs
    missing = [name for name in ("state_dict", "load_state_dict") if given and not hasattr(given, name)]
    if missing:
        raise ConfigError(f"env_state={given!r} has no {' and no '.join(missing)}.")
    if given is None or not getattr(given, "exact", True):
        _log.info(
            "A run that is resumed from a checkpoint resets these environments: their state cannot be saved. "
            "A towerpack_dataflow.envs.ProcessVectorEnv goes on exactly; others, if "
            "env_state=VectorEnvState(envs) says so."
        )
    return given
