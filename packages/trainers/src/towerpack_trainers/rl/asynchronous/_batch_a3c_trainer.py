"""`BatchA3CTrainer`: simulators act continuously, and the learner corrects for the age of their policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from towerpack_callbacks import Callback
from towerpack_inputsource import QueueInput

from ..._argument_checks import at_least
from ...base import BuilderTrainer
from ...config._train_config import TrainConfig
from ...replicate import choose_builder
from ...towers._builder import Builder
from ...towers._devices import choose_devices
from .._acting_report import ActingReport
from ._simulator_actor import SimulatorActor
from ._simulators import Simulators
from ._trajectories import TrajectoryFlow
from ._trajectory_model import TrajectoryModel
from ._v_trace_objective import VTraceObjective

__all__ = ["BatchA3CTrainer"]

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
        return f"{super().explain()}\n{self._actor.describe()}"

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed) if self.devices else super()._make_builder()

    def _own_callbacks(self) -> list[Callback]:
        report = ActingReport(self._actor.episodes, self._actor.time_breakdown)
        return [*super()._own_callbacks(), self._actor, report]
