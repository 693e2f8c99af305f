"""Acts in simulators during learning: predictions, actions, trajectories."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import Any, cast, final

import numpy as np

from towerpack_callbacks import Callback

from ...predict import MultiThreadAsyncPredictor
from ...towers._predictor import Predictor
from .._spaces import action_spec
from ..environments import Episode, FinishedEpisodes
from ._simulator_time_breakdown import SimulatorTimeBreakdown
from ._simulators import Simulators
from ._trajectories import TrajectoryFlow, Unroll

__all__ = ["SimulatorActor"]


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
        answers = _Answers(self, number, len(observation))
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
class _Answers:
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
