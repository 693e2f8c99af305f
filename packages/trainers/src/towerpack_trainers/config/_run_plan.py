"""Directory, starting point, seed and counters of a run, resolved before the graph is built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, Monitors
from towerpack_callbacks.checkpoint import checkpoint_directories
from towerpack_inputsource import InputSource

from ..reports import record_run
from ..reports.trace import TrainingTrace
from ..restore import FreshStart, RunState, StartingPoint
from ..session import ProcessStrategy, RunDirectory
from ._resolve_config import resolve_loop, resolve_monitors, resolve_start
from ._train_config import TrainConfig

__all__ = ["RunPlan"]


@final
@attrs.frozen(eq=False)
class RunPlan:
    """The directory, starting point, seed, counters and monitors of a run.

    Attributes:
        config: the configuration of this process.
        directory: the directory of the run's files.
        start: the initial values.
        seed: the seed, the same in all processes.
        loop: the counters.
        monitors: the recorders of statistics.
        trace: the time trace of the run.
    """

    config: TrainConfig
    directory: RunDirectory
    start: StartingPoint
    seed: int
    loop: LoopState
    monitors: Monitors
    trace: TrainingTrace

    @classmethod
    def of(cls, config: TrainConfig, processes: ProcessStrategy) -> RunPlan:
        """Makes the plan of a run.

        Raises:
            LogDirTakenError: another running training uses the log directory.
            ConfigError: the log directory cannot be a directory.
            CheckpointError: the checkpoint to resume cannot be read.
        """
        directory = RunDirectory(config.log_dir, config.rehearsal, config.if_log_dir_taken)
        start = resolve_start(config, directory.path)
        seed = processes.agree_on_seed(lambda: start.choose_seed(config.seed))
        loop = resolve_loop(config)
        trace = TrainingTrace(config.trace, loop, processes.rank)
        return cls(config, directory, start, seed, loop, resolve_monitors(config, loop), trace)

    @classmethod
    def of_graph(cls, config: TrainConfig, processes: ProcessStrategy) -> RunPlan:
        """Makes the plan of a run that has only its graph yet: with the seed of the run, and without files.

        Raises:
            CheckpointError: the checkpoint to resume, which holds the seed, cannot be read.
        """
        seed = processes.agree_on_seed(lambda: resolve_start(config, config.log_dir).choose_seed(config.seed))
        loop = resolve_loop(config)
        monitors, trace = Monitors([], loop), TrainingTrace(None, loop)
        return cls(config, RunDirectory(None), FreshStart(), seed, loop, monitors, trace)

    @property
    def log_dir(self) -> Path | None:
        """The directory of the run's files."""
        return self.directory.path

    def occupy(self, callbacks: Callbacks, explanation: str) -> None:
        """Locks the directories of the run, writes its description there, and sets them in the monitors.

        Args:
            callbacks: the callbacks, set up; savers among them may write to other directories.
            explanation: the description of the training.

        Raises:
            LogDirTakenError: another running training uses one of them.
            ConfigError: the log directory cannot be used for this run.
        """
        aside = self.directory.prepare(self.start.path, checkpoint_directories(callbacks))
        if self.log_dir is not None:
            if aside is not None:
                self.start.follow_move(self.log_dir, aside)
            record_run(self.log_dir, explanation)
        if where := self.directory.describe():
            self.monitors.put_message(where)

    def state(
        self, callbacks: Callbacks, source: InputSource | None, inputs: Sequence[tf.Tensor]
    ) -> RunState:
        """Returns the state of the run for a checkpoint, except for variables.

        Args:
            callbacks: the callbacks.
            source: the input, which may wrap the configured dataflow; None without one.
            inputs: the input tensors of one training tower; empty if they are not known.
        """
        return RunState(self.loop, self.seed, callbacks, source, self.config.resume_allow, inputs)
