"""The configuration of a training, the plan of its run, and dry runs of it."""

from __future__ import annotations

import copy
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf
from attrs.validators import optional

from towerpack_callbacks import (
    Callback,
    Callbacks,
    LoopState,
    MergeAllSummaries,
    Monitor,
    Monitors,
    MovingAverageSummary,
    ProgressBar,
    RunUpdateOps,
    ScalarPrinter,
)
from towerpack_callbacks.checkpoint import checkpoint_directories
from towerpack_callbacks.monitors import file_monitors
from towerpack_inputsource import InputSource

from ._argument_checks import (
    as_int,
    at_least,
    explain_misuse,
    instance_of,
    list_of,
    make_optimizer,
    one_of,
    positive_number,
    renamed_fields,
    whole_number,
)
from ._errors import ConfigError
from .reports._describe_training import record_run
from .restore._run_state import RunState, check_resume_allow, find_starting_point
from .restore._session_init import SessionInit
from .session._process_strategy import ProcessStrategy
from .session._run_directory import RunDirectory
from .towers._model_desc import ModelDesc

__all__ = [
    "FlowPositions",
    "RunPlan",
    "TrainConfig",
    "default_callbacks",
    "default_monitors",
    "fast_dev_run",
    "overfit_batches",
    "resolve_config",
    "resolve_steps_per_epoch",
]


def default_callbacks() -> list[Callback]:
    """Returns the callbacks added to the user's, unless `TrainConfig(extra_callbacks=…)` is given."""
    averages = MovingAverageSummary()
    return [averages, ProgressBar(averages=averages), MergeAllSummaries(), RunUpdateOps()]


def default_monitors() -> list[Monitor]:
    """Returns the monitors that record statistics, unless `TrainConfig(monitors=…)` is given."""
    return [*file_monitors(), ScalarPrinter()]


def _default_log_dir() -> Path:
    return Path("train_log") / (Path(sys.argv[0]).stem or "interactive")


def _as_path(value: Any) -> Any:
    return Path(value) if isinstance(value, (str, os.PathLike)) else value


def _as_callbacks(value: Callback | Iterable[Callback] | Callbacks | None) -> Callbacks:
    if isinstance(value, Callback):
        raise ConfigError(f"callbacks={value} is one callback; give a list: callbacks=[{value}()].")
    return Callbacks([] if value is None else value)


@final
@renamed_fields(rehearsal="dry_run")
@explain_misuse
@attrs.frozen(kw_only=True)
class TrainConfig:
    """The arguments of a training. Immutable; `attrs.evolve(config, max_epoch=5)` makes a changed copy.

    Args:
        model: the model; None for a trainer with another source of its graph.
        dataflow: the source of datapoints, a DataFlow or another iterable; `input_for` brings them into the
            graph. It measures the flow on the first datapoints of the training, and moves the flow into a
            worker process if its work would delay the steps; `data=QueueInput(flow)` keeps it in this
            process.
        data: an `InputSource` instead of `dataflow`.
        optimizer: a `tf.train.Optimizer`, or a function without arguments that makes one inside the graph;
            replaces `model.optimizer()`.
        callbacks: the user's callbacks, in order.
        extra_callbacks: callbacks that run after them; None: `default_callbacks()`.
        monitors: monitors that record statistics; None: `default_monitors()`, without those that write files
            if there is no log directory.
        steps_per_epoch: the number of steps in an epoch; not divided by the number of towers. None: one pass
            of the data, if its length is known.
        steps_per_run: the number of steps in one session call, looped in the graph. Use it for small models
            with steps shorter than the overhead of a call. Callbacks see only the last step of a call, so
            each period must be a multiple of it, and the data must live in the graph or in a queue. 1: each
            step is a separate call. None: steps without a callback are combined into one call if that is
            faster (on CPUs).
        max_epoch: the last epoch to run.
        starting_epoch: the first epoch to run.
        session_init: the source of initial values of variables, such as `SmartInit(path)`.
        session_config: options of the session, used unchanged; None: `default_session_config()`.
        log_dir: the directory of the run's files; None for no files. Default: `train_log/<script>`. Files of
            an earlier run are moved to `<log_dir>.1`, … unless this run resumes it.
        if_log_dir_taken: the action if another running training uses `log_dir`: "refuse" raises an error that
            names its process; "new" uses a new directory next to it (`<log_dir>-2`, …), which becomes
            `trainer.log_dir`.
        resume: "auto" continues from the latest checkpoint in `log_dir`, if there is one; a path continues
            from that checkpoint.
        resume_allow: the kinds of differences that `resume` logs instead of refusing. Variables that are
            "missing" in the checkpoint or "unequal" in shape or dtype keep their initial values; values that
            are "unused" in this graph are dropped; states of "callbacks" that this run lacks are dropped; an
            "input" of another kind, length or dtype restarts from the beginning. With a "batch" of another
            size, or a "world" of another number of processes, the data continues after the datapoints already
            used.
        seed: seeds the graph's random ops and the data, and replaces the data's own seed. None: a random
            seed, which is logged and checkpointed; a run with that seed is the same run again.
        evaluation_batches: the maximum number of batches of an evaluation; None: its whole input.
        dry_run: whether this is a dry run: its files go to a directory that is removed at the end, and each
            epoch ends with the work of every callback, regardless of its period. See `fast_dev_run`.
        stall_seconds: the time without a finished step, in seconds, after which a warning shows the stack of
            every thread; inf: never.
        trace: the file for a time trace of the training, in the format of Perfetto: steps, session calls,
            callbacks, waits for data, writing of checkpoints, and the workers of the flow. It is written when
            the training ends, also after an error; its name includes the rank if there are several processes.
            None: no trace.
        xla: compile the training towers, gradients included, with XLA; for GPUs, see
            `optimize.compile_training_towers`. On a CPU, with `steps_per_run`, it compiles the steps of a
            call except the last into one program, if that does not change their effect.

    Raises:
        ConfigError: the arguments contradict each other, or an argument has a wrong type or value.

    Example:
        >>> from towerpack_trainers import SimpleTrainer
        >>> from towerpack_trainers.testing import SmallFlow, SmallModel
        >>> config = TrainConfig(
        ...     model=SmallModel(), dataflow=SmallFlow(), callbacks=[], max_epoch=1, log_dir=None, monitors=[]
        ... )
        >>> trainer = SimpleTrainer(config)
        >>> trainer.train()
        >>> trainer.loop.global_step
        12
    """

    model: ModelDesc | None = attrs.field(
        default=None, validator=optional(instance_of(ModelDesc, "a ModelDesc object"))
    )
    dataflow: Any = None
    data: InputSource | None = attrs.field(
        default=None,
        validator=optional(instance_of(InputSource, "an InputSource; a DataFlow goes to dataflow=")),
    )
    optimizer: tf.train.Optimizer | Callable[[], tf.train.Optimizer] | None = None
    callbacks: Callbacks = attrs.field(factory=lambda: Callbacks([]), converter=_as_callbacks)
    extra_callbacks: list[Callback] | None = attrs.field(default=None, validator=optional(list_of(Callback)))
    monitors: list[Monitor] | None = attrs.field(default=None, validator=optional(list_of(Monitor)))
    steps_per_epoch: int | None = attrs.field(
        default=None, converter=as_int, validator=optional(whole_number(1))
    )
    steps_per_run: int | None = attrs.field(
        default=None, converter=as_int, validator=optional(whole_number(1))
    )
    max_epoch: int = attrs.field(default=99999, converter=as_int, validator=whole_number(1))
    starting_epoch: int = attrs.field(default=1, converter=as_int, validator=whole_number(1))
    session_init: SessionInit | None = attrs.field(
        default=None, validator=optional(instance_of(SessionInit, "a SessionInit, such as SmartInit(path)"))
    )
    session_config: tf.ConfigProto | None = attrs.field(
        default=None, validator=optional(instance_of(tf.ConfigProto, "a tf.ConfigProto"))
    )
    log_dir: Path | None = attrs.field(
        factory=_default_log_dir,
        converter=_as_path,
        validator=optional(instance_of(Path, "a path, or None for no files")),
    )
    if_log_dir_taken: str = attrs.field(default="refuse", validator=one_of("refuse", "new"))
    resume: str | Path | None = attrs.field(
        default=None, validator=optional(instance_of((str, Path), '"auto" or the path of a checkpoint'))
    )
    resume_allow: frozenset[str] = attrs.field(default=(), converter=check_resume_allow)
    seed: int | None = attrs.field(default=None, converter=as_int, validator=optional(whole_number(0)))
    evaluation_batches: int | None = attrs.field(
        default=None, converter=as_int, validator=optional(whole_number(1))
    )
    dry_run: bool = attrs.field(default=False, validator=instance_of(bool, "True or False"))
    stall_seconds: float = attrs.field(default=60.0, validator=positive_number())
    trace: Path | None = attrs.field(
        default=None,
        converter=_as_path,
        validator=optional(instance_of(Path, "the path of a file, or None for no trace")),
    )
    xla: bool = attrs.field(default=False, validator=instance_of(bool, "True or False"))

    def __attrs_post_init__(self) -> None:
        if self.dataflow is not None and self.data is not None:
            raise ConfigError("TrainConfig received both dataflow= and data=; give only one of them.")
        if isinstance(self.dataflow, InputSource):
            raise ConfigError("TrainConfig(dataflow=...) received an InputSource; give it as data= instead.")
        has_data = self.dataflow is not None or self.data is not None
        if self.model is not None and not has_data and not self.model.data_from_trainer:
            raise ConfigError(
                "TrainConfig received a model but neither dataflow= nor data=. "
                "Give a DataFlow as dataflow=, or an InputSource as data=."
            )
        if self.resume == "auto" and self.log_dir is None:
            raise ConfigError('TrainConfig(resume="auto") needs log_dir=, the directory of the checkpoints.')

    def make_optimizer(self) -> tf.train.Optimizer:
        """Returns the optimizer: the given one, or a new one made in the current graph.

        Raises:
            ConfigError: the result is not a TensorFlow optimizer.
        """
        given = self.optimizer
        if given is None and self.model is not None:
            given = self.model.optimizer
        return make_optimizer(given, ConfigError)


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


def fast_dev_run(config: TrainConfig, steps: int = 2) -> TrainConfig:
    """Returns the configuration of a dry run, which finds in seconds the errors that would occur after hours.

    It trains one epoch of a few steps and runs the periodic work of every callback at its end, regardless of
    the period: evaluations over a few batches, checkpoints, images. Files go to a directory that is removed
    afterwards; the files in `log_dir` are unchanged, and nothing is resumed. The training itself may follow
    with the same configuration: callbacks and flows start it in their original state. An `InputSource` given
    as `data=` serves one run, so make another one for the training.

    Args:
        config: the training.
        steps: the number of steps, and of batches in an evaluation; rounded up to a multiple of
            `config.steps_per_run`.

    Raises:
        ConfigError: `steps` is not a whole number above 0.

    Example:
        ```python
        SimpleTrainer(fast_dev_run(config)).train()
        ```
    """
    steps = at_least("fast_dev_run", "steps", steps)
    steps += -steps % (config.steps_per_run or 1)
    return attrs.evolve(
        config,
        steps_per_epoch=steps,
        max_epoch=config.starting_epoch,
        evaluation_batches=steps,
        resume=None,
        dry_run=True,
    )


def overfit_batches(config: TrainConfig, batches: int = 1) -> TrainConfig:
    """Returns the configuration of a training on a few batches, which a working model learns by heart.

    Every epoch trains on the same first batches of the data; the number of steps per epoch is unchanged.
    Evaluations take the same number of batches of their data.

    Args:
        config: the training, with its data as `dataflow=`.
        batches: the number of datapoints of the flow to keep.

    Raises:
        ConfigError: `batches` is not a whole number above 0, or the data is not given as `dataflow=`.

    Example:
        ```python
        SimpleTrainer(overfit_batches(config, 4)).train()
        ```
    """
    batches = at_least("overfit_batches", "batches", batches)
    if config.dataflow is None:
        raise ConfigError(
            "overfit_batches takes the first datapoints of dataflow=, but this TrainConfig has none: its "
            f"data is {config.data!r}. Pass the flow itself as dataflow=."
        )
    return attrs.evolve(
        config,
        dataflow=_FirstDatapoints(config.dataflow, batches),
        steps_per_epoch=config.steps_per_epoch or _length(config.dataflow),
        evaluation_batches=batches,
    )


def _length(flow: Any) -> int | None:
    try:
        return len(flow)
    except (TypeError, NotImplementedError):  # the errors that input sources accept
        return None


@final
class _FirstDatapoints:
    """The first datapoints of a flow's first pass, repeated in each pass."""

    def __init__(self, flow: Iterable[Any], count: int) -> None:
        self._flow = flow
        self._count = count
        self._kept: list[Any] | None = None
        self.fixed_batch_size = getattr(flow, "fixed_batch_size", None)
        self.sharded: bool | None = getattr(flow, "sharded", None)

    def __iter__(self) -> Iterator[Any]:
        if self._kept is None:
            positions = FlowPositions()
            positions.note(self._flow)
            # Copies, since a flow may reuse the memory of a datapoint.
            self._kept = [*map(copy.deepcopy, itertools.islice(iter(self._flow), self._count))]
            positions.put_back()
        return iter(self._kept)

    def __len__(self) -> int:
        length = _length(self._flow)
        return self._count if length is None else min(self._count, length)

    def seed(self, seed: int) -> None:
        """Seeds the flow, if it can be seeded."""
        seed_flow = getattr(self._flow, "seed", None)
        if callable(seed_flow):
            seed_flow(seed)
