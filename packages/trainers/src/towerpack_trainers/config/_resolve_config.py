"""Completes a `TrainConfig` for a trainer: fills in the defaults, and refuses unsuitable arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    HookToCallback,
    LoopState,
    Monitors,
    ScalarPrinter,
    StepCounter,
)
from towerpack_inputsource import InputSource

from .._errors import ConfigError
from ..reports._input_report import InputReport
from ..reports._stall_warning import StallWatch
from ..restore import StartingPoint, find_starting_point
from ..step import Lead, TrainingSteps, choose_steps
from ._train_config import TrainConfig, default_callbacks, default_monitors

__all__ = [
    "refuse_dataflow",
    "resolve_callbacks",
    "resolve_config",
    "resolve_input_callbacks",
    "resolve_loop",
    "resolve_monitors",
    "resolve_start",
    "resolve_steps",
    "resolve_steps_per_epoch",
]


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


def refuse_dataflow(config: TrainConfig) -> None:
    """Refuses a DataFlow for a trainer without a model to feed.

    Raises:
        ConfigError: the configuration has a DataFlow.
    """
    if config.dataflow is not None:
        raise ConfigError(
            "Trainer itself has no model to feed from dataflow=. Use a trainer with a model, such as "
            "SimpleTrainer; or set up an InputSource in your graph and pass it as data=."
        )


def resolve_start(config: TrainConfig, log_dir: Path | None) -> StartingPoint:
    """Returns the starting point of the run.

    Args:
        config: the configuration.
        log_dir: the directory of this run's files.

    Raises:
        CheckpointError: the checkpoint to resume cannot be read.
    """
    return find_starting_point(config.resume, log_dir, config.session_init, config.resume_allow)


def resolve_loop(config: TrainConfig) -> LoopState:
    """Returns the counters of a run that has not begun; the number of steps per epoch is not known yet."""
    return LoopState(
        steps_per_epoch=0,
        max_epoch=config.max_epoch,
        starting_epoch=config.starting_epoch,
        evaluation_batches=config.evaluation_batches,
    )


def resolve_monitors(config: TrainConfig, loop: LoopState) -> Monitors:
    """Returns the monitors; by default, the console alone if there is no directory for files."""
    monitors = config.monitors
    if monitors is None:
        monitors = [ScalarPrinter()] if config.log_dir is None else default_monitors()
    return Monitors(monitors, loop)


def resolve_callbacks(
    config: TrainConfig, own: Iterable[Callback], monitors: Iterable[Callback]
) -> Callbacks:
    """Returns all callbacks of a run in order: the trainer's, the user's, the defaults, the monitors."""
    given = config.extra_callbacks
    extra = default_callbacks() if given is None else given
    return Callbacks([*own, *config.callbacks, *extra, *monitors])


def resolve_input_callbacks(
    config: TrainConfig, source: InputSource | None, inputs: Sequence[tf.Tensor]
) -> list[Callback]:
    """Returns the callbacks that run, monitor and report on the input of a training.

    Args:
        config: the configuration.
        source: the input; None without one.
        inputs: the input tensors of one training tower; empty if they are not known.
    """
    stall = config.stall_seconds
    callbacks: list[Callback] = [] if math.isinf(stall) else [StallWatch(source, stall)]
    if source is not None:
        callbacks += map(HookToCallback, source.hooks())
        callbacks.append(InputReport(source, inputs, config.steps_per_run or 1))
    return callbacks


def resolve_steps(
    config: TrainConfig,
    options: tf.ConfigProto,
    train_op: tf.Operation,
    callbacks: Callbacks,
    loop: LoopState,
    counter: StepCounter,
    own_step: str | None,
    lead: Lead | None = None,
) -> TrainingSteps:
    """Chooses the number of steps in a session call, and adds the ops for it to the graph.

    Args:
        config: the configuration.
        options: the options of the session.
        train_op: the op of one step.
        callbacks: the callbacks, set up.
        loop: the counters, with the number of epochs and of steps per epoch.
        counter: counts steps in the graph.
        own_step: the name of the trainer class if it has its own step function; otherwise None.
        lead: the ops that run before each step, as a part of it; None for none.

    Raises:
        ConfigError: several steps per call are requested, but the trainer, a period or the input needs one.
    """
    # XLA would compile the copies again; a limit on each call must apply to each step; and a call of several
    # steps would look like a stall of less than a second.
    may_fuse = not (config.xla or options.operation_timeout_in_ms) and config.stall_seconds >= 1
    return choose_steps(
        train_op,
        callbacks,
        loop,
        counter,
        steps_per_run=config.steps_per_run,
        own_step=own_step,
        may_fuse=may_fuse,
        lead=lead,
    )


def resolve_steps_per_epoch(config: TrainConfig, source: InputSource | None, takes: int = 1) -> int:
    """Returns the number of steps of an epoch: the configured number, or one pass of the data.

    Args:
        config: the configuration.
        source: the input; None without one.
        takes: the number of datapoints that a step takes from the input, for each tower.

    Raises:
        ConfigError: neither is known, the data is empty, or one step takes more datapoints than one pass has.
    """
    steps = config.steps_per_epoch
    if steps is None and source is not None:
        size = source.size()
        if size and size < takes:
            raise ConfigError(
                f"A step takes {takes} datapoints, but one pass of the data has {size}. Take fewer "
                "datapoints in a step, or set TrainConfig(steps_per_epoch=...)."
            )
        steps = size if size is None else size // takes
    if steps == 0:
        raise ConfigError("The data is empty: one pass has no datapoint. Check its source and filters.")
    if steps is None:
        raise ConfigError(
            "TrainConfig has no steps_per_epoch, and the length of one pass of the data is unknown. "
            "Set TrainConfig(steps_per_epoch=...)."
        )
    return steps
