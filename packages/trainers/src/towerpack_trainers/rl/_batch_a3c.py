"""`BatchA3CTrainer`: simulators act continuously, and the learner corrects for the age of their policy."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol, cast, final

import attrs
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_callbacks.loop import Report
from towerpack_inputsource import QueueInput

from .._argument_checks import at_least
from .._errors import ConfigError
from ..base._tower_trainer import BuilderTrainer
from ..config import TrainConfig
from ..predict import MultiThreadAsyncPredictor
from ..replicate import choose_builder
from ..towers._builder import Builder
from ..towers._devices import choose_devices
from ..towers._model_desc import ModelDesc
from ..towers._predictor import Predictor
from ._acting import ActingReport, breakdown_as_text
from ._environments import Episode, FinishedEpisodes
from ._on_policy import PolicyObjective
from ._policy_model import PolicyModel, action_spec
from ._v_trace import VTraceObjective

__all__ = [
    "BatchA3CTrainer",
    "SimulatorActor",
    "SimulatorListener",
    "SimulatorTimeBreakdown",
    "Simulators",
    "TrajectoryFlow",
    "TrajectoryModel",
    "TrajectoryTensors",
    "Unroll",
]


class SimulatorListener(Protocol):
    """The hooks that simulators call, always from the same thread.

    States have `simulator`, `environments`, `observation`, `reward`, `terminated`, `truncated` and `valid`;
    episodes have `total` and `length`; see `towerpack_dataflow.envs.simulators`.
    """

    def on_states(self, states: Any) -> None:
        """Receives the states of all environments of a simulator, which then waits for actions."""

    def on_episode_over(self, episode: Any) -> None:
        """Receives the statistics of an episode."""

    def on_error(self, error: BaseException) -> None:
        """Receives the error that has ended the simulators."""


class Simulators(Protocol):
    """The methods of a `towerpack_dataflow.envs.simulators.SimulatorMaster` that trainers use.

    After the end of an episode, the next step of the environment only resets it.

    Example:
        ```python
        simulators: Simulators = SimulatorMaster([SimulatorProcess(make_env) for _ in range(8)])
        ```
    """

    @property
    def running(self) -> bool:
        """Whether the simulators are running; `on_error` receives the error that ended them."""

    @property
    def simulators(self) -> Sequence[range]:
        """The numbers of the environments of each simulator."""

    @property
    def num_envs(self) -> int:
        """The total number of environments."""

    @property
    def single_observation_space(self) -> Any:
        """The space of one observation."""

    @property
    def single_action_space(self) -> Any:
        """The space of one action."""

    def start(self, hooks: SimulatorListener) -> None:
        """Enables the hooks."""

    def send(self, simulator: int, actions: np.ndarray) -> None:
        """Sends actions to a waiting simulator, from any thread."""

    def close(self) -> None:
        """Ends the simulators."""


@final
class Unroll:
    """Collects the steps of the environments of one simulator, until each has made a trajectory.

    Args:
        environments: the number of environments.
        steps: the number of steps in a trajectory.
        observation: dtype and shape of one observation.
        action: dtype and shape of one action.
    """

    def __init__(
        self,
        environments: int,
        steps: int,
        observation: tuple[Any, Sequence[int]],
        action: tuple[Any, Sequence[int]],
    ) -> None:
        self._rows, self._steps = (environments, steps), steps
        self._observation, self._action = observation, action
        self._at = -1  # the latest step that was begun
        self._begin()

    def end_step(self, reward: np.ndarray, terminated: np.ndarray, valid: np.ndarray) -> None:
        """Adds the results of the last step; does nothing at the beginning."""
        if self._at >= 0:
            self._reward[:, self._at] = reward
            self._terminated[:, self._at] = terminated
            self._valid[:, self._at] = valid

    def observe(self, observation: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """Adds the observations at the beginning of the next step.

        Returns:
            The trajectories, if they are complete now, as arrays in the order of `TrajectoryTensors`.
        """
        self._observations[:, self._at + 1] = observation
        self._at += 1
        if self._at < self._steps:
            return []
        parts = (self._actions, self._log_probability, self._reward, self._terminated, self._valid)
        complete = list(zip(self._observations, *parts))
        self._begin()
        self._observations[:, 0] = observation
        self._at = 0
        return complete

    def act(self, action: np.ndarray, log_probability: np.ndarray) -> None:
        """Adds the actions of the step."""
        self._actions[:, self._at] = action
        self._log_probability[:, self._at] = log_probability

    def _begin(self) -> None:
        count, steps = self._rows
        (observed, shape), (acted, action_shape) = self._observation, self._action
        self._observations = np.empty((count, steps + 1, *shape), observed)
        self._actions = np.empty((*self._rows, *action_shape), acted)
        self._log_probability = np.empty(self._rows, np.float32)
        self._reward = np.empty(self._rows, np.float32)
        self._terminated = np.empty(self._rows, np.bool_)
        self._valid = np.empty(self._rows, np.bool_)


@final
class TrajectoryFlow:
    """Yields batches of trajectories in the order of arrival: a live flow, which has no position.

    Args:
        batch_size: the number of trajectories in a batch.
        capacity: the number of waiting trajectories up to which `put` does not wait.
    """

    live = True

    def __init__(self, batch_size: int, capacity: int) -> None:
        self._batch_size, self._capacity = batch_size, capacity
        self._waiting: deque[tuple[np.ndarray, ...]] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False

    def put(self, trajectories: Sequence[tuple[np.ndarray, ...]]) -> None:
        """Adds trajectories; waits until there is room, or the flow has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) <= self._capacity or self._over)
            self._waiting.extend(trajectories)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Makes the reader raise an error; only the first error counts."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the flow for the reader and for waiting writers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        """Yields lists of arrays in the order of `TrajectoryTensors`, until the flow is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._waiting) >= self._batch_size or self._over)
                if self._error is not None and not self._closed:
                    raise self._error
                if self._closed:
                    return
                taken = [self._waiting.popleft() for _ in range(self._batch_size)]
                self._changed.notify_all()
            observations, *rest = zip(*taken)
            yield [np.concatenate(observations), *map(np.stack, rest)]

    @property
    def _over(self) -> bool:
        return self._closed or self._error is not None


@final
class TrajectoryTensors(NamedTuple):
    """Trajectories of the same number of steps, as the inputs of the graph.

    Attributes:
        observation: [batch * (steps + 1), ...], one trajectory after the other, the same input as for acting.
        action: [batch, steps, ...].
        behaviour_log_probability: float32 [batch, steps], the log-probability of the action under the policy
            that took it.
        reward: float32 [batch, steps].
        terminated: bool [batch, steps], whether the step terminates the episode.
        valid: bool [batch, steps]; False for a step that only reset its environment.
    """

    observation: tf.Tensor
    action: tf.Tensor
    behaviour_log_probability: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    valid: tf.Tensor


@final
class TrajectoryModel(ModelDesc):
    """A policy model that learns from trajectories: its training towers have a cost, the others act.

    Args:
        policy: the model to train.
        objective: makes the cost.
        steps: the number of steps in a trajectory.

    Raises:
        ConfigError: the model is not a `PolicyModel`.
    """

    data_from_trainer = True

    def __init__(self, policy: ModelDesc | None, objective: PolicyObjective, steps: int) -> None:
        if not isinstance(policy, PolicyModel):
            raise ConfigError(f"BatchA3CTrainer needs TrainConfig(model=a PolicyModel); received {policy!r}.")
        self._policy, self._objective, self._steps = policy, objective, steps

    def inputs(self) -> list[tf.TensorSpec]:
        """Returns the components of a batch of trajectories."""
        [observation] = self._policy.inputs()
        action = action_spec(self._policy.action_space)
        kinds = {
            "behaviour_log_probability": tf.float32,
            "reward": tf.float32,
            "terminated": tf.bool,
            "valid": tf.bool,
        }
        return [
            observation,
            tf.TensorSpec([None, self._steps, *action.shape], action.dtype, "action"),
            *(tf.TensorSpec([None, self._steps], kind, name) for name, kind in kinds.items()),
        ]

    def build_graph(self, *inputs: tf.Tensor) -> tf.Tensor | None:
        """Adds a replica for acting, or one for learning."""
        if not self.training:
            # Each batch of predictions draws different random numbers, in the order of execution.
            self._policy.add_acting(inputs[0], tf.random.uniform([2], maxval=tf.int64.max, dtype=tf.int64))
            return None
        batch = TrajectoryTensors(*inputs)
        distribution, value = self._policy.checked_policy(batch.observation)
        return self._objective.cost(distribution, value, batch)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns the policy's optimizer."""
        return self._policy.optimizer()


@final
class SimulatorTimeBreakdown:
    """Sums up the time of simulators. Each does one thing at a time; the fractions are means over simulators.

    Args:
        simulators: the number of simulators.

    Attributes:
        names: the keys of the return value of `take`.
        frames: the total number of steps of environments.
        predictions: the total number of predictions.
    """

    names = (
        "frames_per_second",
        "predictions_per_second",
        "environment_share",
        "inference_share",
        "learner_share",
        "idle_share",
    )

    def __init__(self, simulators: int) -> None:
        self.frames = self.predictions = 0
        self._seconds = np.zeros(3)  # of environments, inference, learner
        self._held = 0.0  # seconds of a full learner's queue, which blocked all simulators
        self._sent = np.full(simulators, np.nan)
        self._held_when_sent = np.zeros(simulators)
        self._asked = np.zeros(simulators)
        self._last = (perf_counter(), 0, 0, self._seconds.copy())

    def arrived(self, simulator: int, frames: int) -> None:
        """Records the arrival of a simulator's states."""
        self.frames += frames
        seconds = perf_counter() - self._sent[simulator]
        if not np.isnan(seconds):
            held = min(self._held - self._held_when_sent[simulator], seconds)
            self._seconds[0] += seconds - held
            self._seconds[2] += held

    def held_up(self, seconds: float) -> None:
        """Records the time of a full learner's queue."""
        self._held += seconds
        self._seconds[2] += seconds

    def asked(self, simulator: int, predictions: int) -> None:
        """Records a request for predictions."""
        self.predictions += predictions
        self._asked[simulator] = perf_counter()

    def sent(self, simulator: int) -> None:
        """Records the sending of its actions."""
        now = perf_counter()
        self._seconds[1] += now - self._asked[simulator]
        self._sent[simulator] = now
        self._held_when_sent[simulator] = self._held

    def take(self) -> dict[str, float]:
        """Returns rates and fractions since the last call; the rest is idle time."""
        now, seconds = perf_counter(), self._seconds.copy()
        began, frames, predictions, before = self._last
        self._last = (now, self.frames, self.predictions, seconds)
        passed = max(now - began, 1e-9)
        busy = ((seconds - before) / (passed * len(self._sent))).tolist()
        rates = [(self.frames - frames) / passed, (self.predictions - predictions) / passed]
        return dict(zip(self.names, [*rates, *busy, max(1 - sum(busy), 0.0)]))

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`."""
        frames, predictions = taken["frames_per_second"], taken["predictions_per_second"]
        shares = breakdown_as_text(taken)
        return f"{frames:,.0f} frames/s, {predictions:,.0f} predictions/s; the time of simulators: {shares}"


@final
class SimulatorActor(Callback):
    """Starts and stops the simulators with the training; in between it answers their states.

    Its hooks run in the simulators' thread: they collect trajectories and request predictions; the prediction
    threads send the actions. A full queue of trajectories blocks that thread, and therefore all simulators.

    Args:
        simulators: not started yet.
        flow: takes trajectories.
        steps: the number of steps in a trajectory.
        predictors: the number of prediction threads.
        prediction_batch: the maximum number of observations in one prediction.

    Attributes:
        episodes: the finished episodes of the simulators.
        time_breakdown: the fractions of time of the simulators.
    """

    chief_only = False

    def __init__(
        self, simulators: Simulators, flow: TrajectoryFlow, steps: int, predictors: int, prediction_batch: int
    ) -> None:
        self._simulators, self._flow = simulators, flow
        self._threads, self._prediction_batch = predictors, prediction_batch
        self._action = action = action_spec(simulators.single_action_space)
        space = simulators.single_observation_space
        kinds = (space.dtype, space.shape), (action.dtype.as_numpy_dtype, action.shape)
        self._unrolls = [Unroll(len(envs), steps, *kinds) for envs in simulators.simulators]
        self.episodes = FinishedEpisodes(simulators.num_envs)
        self.time_breakdown = SimulatorTimeBreakdown(len(simulators.simulators))
        self._predict: MultiThreadAsyncPredictor | None = None
        self._steps_before = 0

    # ---- the callback

    def _setup_graph(self) -> None:
        found = self.trainer.get_predictor(["observation"], ["sampled_action", "action_log_probability"])
        predictors = [cast(Predictor, found)] * self._threads
        # Each environment has one request at a time, so none has to wait for room.
        room = self._simulators.num_envs
        self._predict = MultiThreadAsyncPredictor(predictors, self._prediction_batch, room)

    def _before_train(self) -> None:
        assert self._predict is not None
        self._steps_before = self.trainer.loop.env_steps
        self._predict.start()
        self._simulators.start(self)

    def _trigger_step(self) -> None:
        self.trainer.loop.env_steps = self._steps_before + self.time_breakdown.frames

    def _after_train(self) -> None:
        self._flow.close()
        self._simulators.close()
        if self._predict is not None:
            self._predict.close()

    def describe(self) -> str:
        """Describes the simulators and threads, for `explain`."""
        return (
            f"environments: {self._simulators.num_envs} in {len(self._unrolls)} simulators; "
            f"threads that predict: {self._threads}, each for up to {self._prediction_batch} observations at "
            "a time\n"
            "resume: in new episodes; the order in which simulators become ready varies"
        )

    # ---- the hooks

    def on_states(self, states: Any) -> None:
        """Ends a step of the trajectories, and requests the actions of the next one."""
        number, observation = states.simulator, states.observation
        unroll = self._unrolls[number]
        self.time_breakdown.arrived(number, int(np.count_nonzero(states.valid)))
        unroll.end_step(states.reward, states.terminated, states.valid)
        if complete := unroll.observe(observation):
            began = perf_counter()
            self._flow.put(complete)
            self.time_breakdown.held_up(perf_counter() - began)
        assert self._predict is not None
        self.time_breakdown.asked(number, len(observation))
        answers = _PendingPredictions(self, number, len(observation))
        for row, each in enumerate(observation):
            self._predict.put_task([each], partial(answers.take, row))

    def on_episode_over(self, episode: Any) -> None:
        """Counts an episode."""
        self.episodes.add(Episode(episode.total, episode.length))

    def on_error(self, error: BaseException) -> None:
        """Ends the training with an error."""
        self._flow.fail(error)

    def act(self, simulator: int, answers: Sequence[Sequence[Any]]) -> None:
        """Sends the predicted actions; called by a prediction thread."""
        action, log_probability = (np.stack(part) for part in zip(*answers))
        self._unrolls[simulator].act(action, log_probability)
        self.time_breakdown.sent(simulator)
        try:
            self._simulators.send(simulator, self._action.for_environment(action))
        except Exception:
            if self._simulators.running:
                raise  # otherwise the error that has ended the simulators is raised, which is more specific


@final
class _PendingPredictions:
    """The predictions for the environments of one simulator, until all are complete."""

    def __init__(self, actor: SimulatorActor, simulator: int, count: int) -> None:
        self._actor, self._simulator, self._missing = actor, simulator, count
        self._rows: list[Any] = [None] * count
        self._lock = threading.Lock()

    def take(self, row: int, answer: Future[list[Any]]) -> None:
        """Stores one answer; the last one lets the simulator continue. An error ends the training."""
        try:
            self._rows[row] = answer.result()
            with self._lock:
                self._missing -= 1
                complete = not self._missing
            if complete:
                self._actor.act(self._simulator, self._rows)
        except BaseException as error:  # raised in a thread of the predictor, which would only log it
            self._actor.on_error(error)


_STEPS_PER_EPOCH = 100
_PREFETCHED = 1  # batches; each further one makes the acting policy one update older


@final
class BatchA3CTrainer(BuilderTrainer):
    """Trains a policy on trajectories that simulators make concurrently, at their own pace.

    The architecture is that of Tensorpack's A3C-Gym and of Babaeizadeh et al. 2016 (GA3C): simulators send
    observations to a master in this process; all waiting observations become one batch for the newest
    policy; steps become trajectories, which a queue brings to the learner. Since the policy has been updated
    after it acted, V-trace weights its actions (Espeholt et al. 2018, IMPALA).

    It starts the simulators, and closes them at the end of the training, even after an error. `global_step`
    counts updates, and `env_steps` the steps of environments. A resumed run begins new episodes. Runs are
    not reproducible, even with a seed, since the order in which simulators become ready varies.

    Args:
        config: the training; its model is a `PolicyModel`, and it has no data.
        simulators: a `towerpack_dataflow.envs.simulators.SimulatorMaster`, not started.
        steps: the number of steps in a trajectory.
        batch_size: the number of trajectories in an update; by default, the number of environments.
        objective: the cost.
        predictors: the number of prediction threads.
        prediction_batch: the maximum number of observations in one prediction; by default, all waiting ones.
        devices: devices such as "/gpu:0", or their number, with a tower each; see `SyncMultiGPUTrainer`.

    Raises:
        ConfigError: the configuration, or another argument, does not suit this trainer.

    Example:
        ```python
        simulators = SimulatorMaster([SimulatorProcess(make_env) for _ in range(8)])
        BatchA3CTrainer(TrainConfig(model=policy, max_epoch=10), simulators, steps=16).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        simulators: Simulators,
        *,
        steps: int = 16,
        batch_size: int | None = None,
        objective: VTraceObjective | None = None,
        predictors: int = 1,
        prediction_batch: int | None = None,
        devices: int | Sequence[str] | None = None,
    ) -> None:
        name, count = type(self).__name__, simulators.num_envs
        steps = at_least(name, "steps", steps)
        size = at_least(name, "batch_size", count if batch_size is None else batch_size)
        most = at_least(name, "prediction_batch", count if prediction_batch is None else prediction_batch)
        if devices is not None:
            self.devices = choose_devices(devices, None)
        model = TrajectoryModel(config.model, objective or VTraceObjective(), steps)
        flow = TrajectoryFlow(size, capacity=size)
        self._actor = SimulatorActor(simulators, flow, steps, at_least(name, "predictors", predictors), most)
        wanted = config.steps_per_epoch
        super().__init__(
            attrs.evolve(
                config,
                model=model,
                data=QueueInput(flow, capacity=_PREFETCHED, infinite=False),
                steps_per_epoch=_STEPS_PER_EPOCH if wanted is None else wanted,
            )
        )

    def explain(self) -> str:
        """Describes the training, as `Trainer.explain` does, and the acting."""
        return Report(f"{super().explain()}\n{self._actor.describe()}")

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed) if self.devices else super()._make_builder()

    def _own_callbacks(self) -> list[Callback]:
        report = ActingReport(self._actor.episodes, self._actor.time_breakdown)
        return [*super()._own_callbacks(), self._actor, report]
