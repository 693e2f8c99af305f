"""Acting: a callback makes the data of a training in environments, one iteration at a time."""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol, cast, final

import attrs
import numpy as np

from towerpack_callbacks import Callback, Every
from towerpack_callbacks.loop import Report
from towerpack_inputsource import RolloutInput

from .._errors import ConfigError
from ..base._tower_trainer import BuilderTrainer
from ..config import TrainConfig, default_callbacks
from ..replicate import choose_builder
from ..towers._builder import Builder
from ..towers._devices import choose_devices
from ..towers._predictor import Predictor
from ._environments import FinishedEpisodes, GroupedSteps, Transitions, VectorSteps, state_of
from ._protocols import Environments, EnvironmentState

__all__ = [
    "ITERATIONS_IN_EPOCH",
    "ActingReport",
    "ActingTimeBreakdown",
    "AgentTrainer",
    "Collector",
    "TimeBreakdown",
    "VectorTransition",
    "breakdown_as_text",
]

_log = logging.getLogger("towerpack_trainers")


class TimeBreakdown(Protocol):
    """Measures the time of a training by acting."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the rates and fractions."""

    def take(self) -> dict[str, float]:
        """Returns the rates and fractions since the last call, by name."""

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`."""


@final
class ActingTimeBreakdown:
    """Sums up the time of the parts of a training.

    Attributes:
        names: the keys of the return value of `take`.
        environment: the time of waiting for environments, in seconds.
        inference: the time of running the policy, in seconds.
        learner: the time of updates, in seconds.
        frames: the number of steps of environments.
    """

    names = ("frames_per_second", "environment_share", "inference_share", "learner_share", "idle_share")

    def __init__(self) -> None:
        self._learning_since: float | None = None
        self._restart()

    def _restart(self) -> None:
        self.environment = self.inference = self.learner = 0.0
        self.frames = 0
        self._since = perf_counter()

    def begin_learning(self) -> None:
        """Marks the beginning of updates."""
        self._learning_since = perf_counter()

    def end_learning(self) -> None:
        """Marks the end of updates."""
        if self._learning_since is not None:
            self.learner += perf_counter() - self._learning_since
            self._learning_since = None

    def take(self) -> dict[str, float]:
        """Returns frames per second and each part's fraction of time since the last call; resets them.

        Time outside of the three parts, such as evaluations, savers and storing of steps, is idle time.
        """
        seconds = max(perf_counter() - self._since, 1e-9)
        busy = (self.environment, self.inference, self.learner)
        parts = (self.frames, *busy, max(seconds - sum(busy), 0.0))
        self._restart()
        return {name: part / seconds for name, part in zip(self.names, parts)}

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`: "1,234 frames/s: environment 41 %, inference 22 %, …"."""
        return f"{taken['frames_per_second']:,.0f} frames/s: {breakdown_as_text(taken)}"


def breakdown_as_text(taken: Mapping[str, float]) -> str:
    """Formats the fractions among rates and fractions: "environment 41 %, inference 22 %, …"."""
    shares = {name.removesuffix("_share"): share for name, share in taken.items() if name.endswith("_share")}
    return ", ".join(f"{name} {share:.0%}".replace("%", " %") for name, share in shares.items())


_ARRAYS = "environments.npz"
# Keys of checkpoints that releases up to 0.2 wrote.
_RENAMED_KEYS = {"turn_begin": "iteration_begin", "acts": "action_count"}


@final
class VectorTransition(NamedTuple):
    """One step of each environment, with the policy's outputs before it.

    Attributes:
        observation: the observation before the step.
        outputs: the outputs of the policy; the first one is the actions.
        happened: the step.
    """

    observation: np.ndarray
    outputs: Sequence[np.ndarray]
    happened: Transitions

    @classmethod
    def joined(
        cls, asked: Sequence[tuple[np.ndarray, Sequence[np.ndarray]]], happened: Transitions
    ) -> VectorTransition:
        """Joins the observations and outputs of all groups."""
        if len(asked) == 1:
            return cls(*asked[0], happened)
        observations, outputs = zip(*asked)
        return cls(np.concatenate(observations), [np.concatenate(each) for each in zip(*outputs)], happened)


class Collector(Callback):
    """Acts in environments, then feeds the batches of an iteration (several updates) into the graph.

    It must come after all savers: an iteration begins in `_after_triggers`, after the checkpoints of that
    step were written. So a checkpoint at the end of an iteration holds no batches; a checkpoint within an
    iteration holds the data they were drawn from, the state before, and the number of used batches.

    Subclasses act and store data in `_make_data`, and draw batches in `_batches`.

    Args:
        envs: the environments, or a list of groups of them. A group with `send` and `recv` then steps while
            the policy acts for the next one.
        source: the input of the training.
        updates: the number of updates in an iteration.
        env_state: the state of the environments, or a list with the state of each group; None: that of
            `envs`, if they have one.

    Attributes:
        time_breakdown: the fractions of time.
        steps: the environments with their step functions.
    """

    chief_only = False

    def __init__(
        self,
        envs: Environments,
        source: RolloutInput,
        updates: int,
        env_state: EnvironmentState | Sequence[EnvironmentState] | None = None,
    ) -> None:
        self.steps = GroupedSteps(envs)
        self.time_breakdown = ActingTimeBreakdown()
        self._source, self._updates = source, updates
        self._env_state = state_of(envs, env_state)
        self._restored: dict[str, Any] | None = None
        self._iteration_begin = 0
        self._predict: Predictor | None = None
        self._action_count = 0
        self._seed, self._towers = 0, 1

    def prepare(self, seed: int, towers: int) -> None:
        """Receives the arguments that the trainer knows only after its construction.

        Args:
            seed: the seed of the run.
            towers: the number of towers that take a batch in each update.
        """
        self._seed, self._towers = seed, towers

    def describe(self) -> str:
        """Describes the acting, in several lines."""
        groups = [part.envs for part in self.steps.parts]
        kinds = " and ".join(f"{group.num_envs} in {type(group).__name__}" for group in groups)
        overlap = ", one of which steps while the policy acts for another" if self.steps.overlaps else ""
        state = self._env_state
        exact = state is not None and getattr(state, "exact", True)
        reason = getattr(state, "reason", "") or "their state cannot be saved"
        return (
            f"environments: {kinds}, autoreset mode {self.steps.parts[0].mode}{overlap}\n"
            f"an iteration: {self._describe_iteration()}\n"
            f"resume: {'exact' if exact else f'in new episodes, since the environments are reset: {reason}'}"
        )

    # ---- what subclasses override

    @abc.abstractmethod
    def _outputs(self) -> Sequence[str]:
        """Returns the names of the policy's outputs."""

    @abc.abstractmethod
    def _make_data(self) -> None:
        """Acts, and stores the steps. Before it returns, it saves the state that the batches depend on."""

    @abc.abstractmethod
    def _batches(self) -> Iterable[Sequence[np.ndarray]]:
        """Draws the batches of an iteration, in the order of the model's inputs."""

    @abc.abstractmethod
    def _end_iteration(self) -> None:
        """Drops the data that later iterations do not need."""

    @abc.abstractmethod
    def _data_state(self) -> dict[str, Any]:
        """Returns the state that the batches of this iteration depend on, as JSON values."""

    @abc.abstractmethod
    def _save_data(self, directory: Path) -> None:
        """Writes the steps into a directory."""

    @abc.abstractmethod
    def _load_data(self, state: dict[str, Any], directory: Path) -> None:
        """Restores the data of the two methods above."""

    def _begin_anew(self) -> None:
        """Called when a resumed run could not continue its episodes."""

    def _describe_iteration(self) -> str:
        """Describes an iteration."""
        return f"acts, then {self._updates} updates"

    # ---- the iterations

    def _setup_graph(self) -> None:
        predict = self.trainer.get_predictor(["observation", "rng_key"], self._outputs())
        self._predict = cast(Predictor, predict).in_calling_thread()

    def step_period(self) -> Every:
        """Returns the length of an iteration."""
        return Every(steps=self._updates)

    def _before_train(self) -> None:
        self.time_breakdown.take()  # time before the training does not count
        if self._restored is None:
            began = perf_counter()
            self.steps.reset(self._seed)
            self.time_breakdown.environment += perf_counter() - began
            self._begin_iteration()
        elif self._iteration_is_over():
            self._begin_iteration()
        else:
            self._put(self.global_step - self._iteration_begin)

    def _before_epoch(self) -> None:
        self.time_breakdown.begin_learning()

    def _trigger_step(self) -> None:
        if self._iteration_is_over():
            self.time_breakdown.end_learning()
            self._end_iteration()

    def _after_epoch(self) -> None:
        # The following work, such as an evaluation, is not learning.
        self.time_breakdown.end_learning()

    def _after_triggers(self) -> None:
        loop = self.trainer.loop
        last = loop.stop is not None or (loop.is_last_step and loop.epoch_num == loop.max_epoch)
        if self._iteration_is_over() and not last:
            self._begin_iteration()

    def _iteration_is_over(self) -> bool:
        return self.global_step - self._iteration_begin >= self._updates

    def _begin_iteration(self) -> None:
        self._iteration_begin = self.global_step
        self._make_data()
        self._put(0)
        self.time_breakdown.begin_learning()

    def _put(self, used: int) -> None:
        self._source.put_all(islice(self._batches(), used * self._towers, None))

    # ---- acting

    def _act(self, observation: np.ndarray) -> Sequence[np.ndarray]:
        """Runs the policy. Each call draws different random numbers, which depend only on seed and time."""
        assert self._predict is not None
        predict = self._predict
        self._action_count += 1
        rng_key = np.array([self._seed, self._action_count], np.int64)
        began = perf_counter()
        outputs: list[np.ndarray] = predict(observation, rng_key)
        self.time_breakdown.inference += perf_counter() - began
        return outputs

    def _transitions(self, count: int) -> Iterator[VectorTransition]:
        """Acts in all environments for `count` steps.

        While the policy acts for a group of environments, the others step: the observations of a group are
        awaited only when the policy acts for it again.
        """
        parts = self.steps.parts
        asked = [self._begin(part) for part in parts]
        for left in reversed(range(count)):
            before, happened = list(asked), []
            for number, part in enumerate(parts):
                happened.append(self._receive(part))
                if left:
                    asked[number] = self._begin(part)
            yield VectorTransition.joined(before, self.steps.joined(happened))

    def _begin(self, part: VectorSteps) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        observation = part.observation
        outputs = self._act(observation)
        began = perf_counter()
        part.send(outputs[0])
        self.time_breakdown.environment += perf_counter() - began
        return observation, outputs

    def _receive(self, part: VectorSteps) -> Transitions:
        began = perf_counter()
        happened = part.receive()
        self.time_breakdown.environment += perf_counter() - began
        valid = int(np.count_nonzero(happened.valid))
        self.time_breakdown.frames += valid
        self.trainer.loop.env_steps += valid
        return happened

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns the progress of the iteration, and the state that it depends on."""
        if not self.steps.started:
            return {}
        return {
            "iteration_begin": self._iteration_begin,
            "action_count": self._action_count,
            "envs": None if self._env_state is None else self._env_state.state_dict(),
            "data": self._data_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state; `load_files` restores its arrays."""
        self._restored = {_RENAMED_KEYS.get(key, key): value for key, value in state.items()} or None

    def save_files(self, directory: Path) -> None:
        """Writes observations and steps into a directory."""
        if not self.steps.started:
            return
        arrays: dict[str, Any] = self.steps.arrays()
        np.savez(directory / _ARRAYS, **arrays)
        self._save_data(directory)

    def load_files(self, directory: Path) -> None:
        """Restores the run's environments and data."""
        state = self._restored
        assert state is not None
        self._iteration_begin, self._action_count = int(state["iteration_begin"]), int(state["action_count"])
        with np.load(directory / _ARRAYS, allow_pickle=False) as arrays:
            self.steps.load_arrays(arrays)
        self._load_data(state["data"], directory)
        if self._env_state is not None and state["envs"] is not None:
            self._env_state.load_state_dict(state["envs"])
            if getattr(self._env_state, "exact", True):
                return
        _log.warning("Environment state is not restorable; resetting all environments.")
        self.steps.reset(self._seed + self._action_count)
        self._begin_anew()


@final
class ActingReport(Callback):
    """Records the returns of finished episodes, and the fraction of time of each part, once per epoch.

    Args:
        episodes: the finished episodes of the training's environments.
        time_breakdown: the fractions of time.
    """

    def __init__(self, episodes: FinishedEpisodes, time_breakdown: TimeBreakdown) -> None:
        self._episodes, self._breakdown = episodes, time_breakdown

    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics."""
        return ["mean_return", "episodes", *self._breakdown.names]

    def headlines(self) -> Sequence[str]:
        """Returns the name of the return only; the fractions have a separate line."""
        return ["mean_return"]

    def _trigger_epoch(self) -> None:
        # Episodes may end at the same time, in the simulators' thread.
        monitors, last = self.trainer.monitors, list(self._episodes.last)
        monitors.put_scalar("episodes", len(self._episodes.take_new()))
        # Before the end of the first episode there is no return to report.
        mean = float(np.mean([each.total for each in last])) if last else np.nan
        monitors.put_scalar("mean_return", mean)
        taken = self._breakdown.take()
        for name, value in taken.items():
            monitors.put_scalar(name, value)
        monitors.put_message(self._breakdown.as_text(taken))


ITERATIONS_IN_EPOCH = 10
"""The number of iterations in an epoch, unless the configuration has another number of steps."""


class AgentTrainer(BuilderTrainer):
    """Trains a model of one cost on data that a collector makes.

    Args:
        config: the training; its data comes from the collector.
        collector: makes the data, one iteration at a time.
        updates: the number of updates in an iteration.
        devices: devices, or their number; None for one.

    Raises:
        ConfigError: the configuration does not suit this trainer.
    """

    def __init__(
        self,
        config: TrainConfig,
        collector: Collector,
        updates: int,
        devices: int | Sequence[str] | None,
    ) -> None:
        if devices is not None:
            self.devices = choose_devices(devices, None)
        self._collector = collector
        extra = default_callbacks() if config.extra_callbacks is None else config.extra_callbacks
        steps = config.steps_per_epoch
        super().__init__(
            attrs.evolve(
                config,
                steps_per_epoch=updates * ITERATIONS_IN_EPOCH if steps is None else steps,
                extra_callbacks=[*extra, collector],
            )
        )

    def explain(self) -> str:
        """Describes the training, as `Trainer.explain` does, and the acting."""
        return Report(f"{super().explain()}\n{self._collector.describe()}")

    def _setup(self) -> None:
        self._collector.prepare(self.seed, max(len(self.devices), 1))
        super()._setup()

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed) if self.devices else super()._make_builder()

    def _own_callbacks(self) -> list[Callback]:
        report = ActingReport(self._collector.steps.episodes, self._collector.time_breakdown)
        return [*super()._own_callbacks(), report]


def updates_of(trainer: str, batches: int, devices: int | Sequence[str] | None) -> int:
    """Returns the number of updates for the given number of batches.

    Args:
        trainer: the trainer's name, for messages.
        batches: the number of batches in an iteration.
        devices: devices, or their number; None for one.

    Raises:
        ConfigError: the batches cannot be divided evenly among the towers.
    """
    towers = 1 if devices is None else len(choose_devices(devices, None))
    if batches % towers:
        raise ConfigError(
            f"{trainer}: an iteration has {batches} batches, which cannot be divided evenly among {towers} "
            "towers. Choose steps, batch_size or epochs so that the number of batches is a multiple."
        )
    return batches // towers
