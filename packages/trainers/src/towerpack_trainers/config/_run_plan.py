"""Directory, starting point, seed, counters and positions of flows, resolved before the graph is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, LoopState, Monitors, ScalarPrinter
from towerpack_callbacks.checkpoint import checkpoint_directories
from towerpack_inputsource import InputSource

from .._errors import ConfigError
from ..reports import record_run
from ..restore import RunState, find_starting_point
from ..session import ProcessStrategy, RunDirectory
from ._train_config import TrainConfig, default_monitors

__all__ = ["FlowPositions", "RunPlan", "resolve_config", "resolve_steps_per_epoch"]


@final
class RunPlan:
    """The directory, starting point, seed, counters and monitors of a run.

    Args:
        config: the configuration of this process.
        processes: the other processes.

    Attributes:
        config: the configuration of this process.
        directory: the directory of the run's files.
        log_dir: the path of that directory; None for no files.
        start: the initial values.
        seed: the seed, the same in all processes.
        loop: the counters; the number of steps per epoch is not known yet.
        monitors: the recorders of statistics; by default, the console alone if there is no log directory.

    Raises:
        LogDirTakenError: another running training uses the log directory.
        ConfigError: the log directory cannot be a directory.
        CheckpointError: the checkpoint to resume cannot be read.
    """

    def __init__(self, config: TrainConfig, processes: ProcessStrategy) -> None:
        self.config = config
        self.directory = RunDirectory(config.log_dir, config.dry_run, config.if_log_dir_taken)
        self.log_dir = self.directory.path
        self.start = find_starting_point(
            config.resume, self.log_dir, config.session_init, config.resume_allow
        )
        self.seed = processes.agree_on_seed(lambda: self.start.choose_seed(config.seed))
        self.loop = LoopState(
            steps_per_epoch=0,
            max_epoch=config.max_epoch,
            starting_epoch=config.starting_epoch,
            evaluation_batches=config.evaluation_batches,
        )
        monitors = config.monitors
        if monitors is None:
            monitors = [ScalarPrinter()] if config.log_dir is None else default_monitors()
        self.monitors = Monitors(monitors, self.loop)

    def acquire(self, callbacks: Callbacks, explanation: str) -> None:
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
                self.start.retarget(self.log_dir, aside)
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


def resolve_config(
    trainer: str, config: TrainConfig | None, arguments: Mapping[str, Any], is_chief: bool
) -> TrainConfig:
    """Returns the configuration of one process's training.

    Args:
        trainer: the trainer's name, for messages.
        config: the given configuration.
        arguments: the arguments of a `TrainConfig`, given instead of one.
        is_chief: whether the process writes files and restores checkpoints.

    Raises:
        ConfigError: both were given, or `config` is not a `TrainConfig`.
    """
    if config is None:
        config = TrainConfig(**arguments)
    elif arguments:
        raise ConfigError(
            f"{trainer} received a TrainConfig and also {', '.join(arguments)}. "
            "Pass all arguments to the TrainConfig, or omit the TrainConfig."
        )
    if not isinstance(config, TrainConfig):
        raise ConfigError(f"{trainer} takes a TrainConfig, received {config!r}.")
    if is_chief:
        return config
    return attrs.evolve(config, log_dir=None, monitors=[], resume=None, session_init=None)


def resolve_steps_per_epoch(config: TrainConfig, source: InputSource | None, per_step: int = 1) -> int:
    """Returns the number of steps of an epoch: the configured number, or one pass of the data.

    Args:
        config: the configuration.
        source: the input; None without one.
        per_step: the number of datapoints that a step takes from the input, for each tower.

    Raises:
        ConfigError: neither is known, the data is empty, or one step takes more datapoints than one pass has.
    """
    steps = config.steps_per_epoch
    if steps is None and source is not None:
        size = source.size()
        if size and size < per_step:
            raise ConfigError(
                f"A step takes {per_step} datapoints, but one pass of the data has {size}. Take fewer "
                "datapoints in a step, or set TrainConfig(steps_per_epoch=...)."
            )
        steps = size if size is None else size // per_step
    if steps == 0:
        raise ConfigError("The data is empty: one pass has no datapoint. Check its source and filters.")
    if steps is None:
        raise ConfigError(
            "TrainConfig has no steps_per_epoch, and the length of one pass of the data is unknown. "
            "Set TrainConfig(steps_per_epoch=...)."
        )
    return steps


@final
class FlowPositions(Callback):
    """Restores the positions of flows after a training.

    A flow continues from pass to pass during its lifetime. Without this callback, the data of a second
    training, such as the one after a dry run, would depend on the number of datapoints that the first one
    read. A flow that is `live` has no position and keeps its contents.
    """

    chief_only = False

    def __init__(self) -> None:
        self._found: list[tuple[Any, Any]] = []

    def note(self, flow: Any) -> None:
        """Saves the position of a flow, if it has one. Call it after seeding and before reading.

        Args:
            flow: a flow, or any other object, which is ignored.
        """
        if hasattr(flow, "load_state_dict") and not getattr(flow, "live", False):
            self._found.append((flow, flow.state_dict()))

    def put_back(self) -> None:
        """Restores the saved positions. Call it when no reader is left."""
        for flow, position in self._found:
            if position:
                flow.load_state_dict(position)

    def _after_train(self) -> None:
        self.put_back()
