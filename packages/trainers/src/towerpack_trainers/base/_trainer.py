"""The base class of trainers. A trainer runs steps; callbacks do everything else."""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    HookToCallback,
    InferenceTower,
    LoopState,
    StepCounter,
    find_tensors,
)
from towerpack_callbacks.loop import Report

from .._argument_checks import renamed_method
from .._errors import ConfigError, TrainerStateError
from ..config import (
    RunPlan,
    TrainConfig,
    default_callbacks,
    resolve_config,
    resolve_steps_per_epoch,
)
from ..reports._describe_training import describe_trainable_variables, describe_training
from ..reports._input_overhead import InputOverhead
from ..reports._input_report import InputReport, StallWatch
from ..reports.trace import TrainingTrace
from ..restore._run_state import RunState
from ..session._process_strategy import ProcessStrategy, SingleProcess, seed_data
from ..session._training_end import StopRequests, StopSignals, TrainingEnd, TrainingInputs
from ..session._training_loop import TrainingLoop
from ..step._choose_steps import PrologueOps, check_position, choose_steps
from ..step._fused_steps import TrainingSteps
from ..step._hooked_session import HookedSession
from ..towers._devices import configure_process, session_config_of_trainer
from ..towers._predictor import Predictor, make_predictor

__all__ = ["Trainer"]

_log = logging.getLogger("towerpack_trainers")


class _BuiltInGraph(abc.ABCMeta):
    """Calls the whole `__init__` of a trainer, that of a subclass included, inside the trainer's graph.

    A script builds there as with Tensorpack's trainers. Otherwise, ops made after `super().__init__()` would
    be in the default graph, where the trainer's input is not available.
    """

    if not TYPE_CHECKING:  # or editors would show these arguments, and not those of `__init__`

        def __call__(cls, *arguments, **named):
            trainer = cls.__new__(cls, *arguments, **named)
            with trainer.graph.as_default():
                trainer.__init__(*arguments, **named)
            return trainer

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of `__init__`, for `help`."""
        kind: Any = cls
        return inspect.signature(functools.partial(kind.__init__, None))


class Trainer(metaclass=_BuiltInGraph):
    """Runs steps until the last epoch is over. The docstring of `Callback` shows the loop.

    It makes no assumption about the model and builds its own graph. Set `train_op` from another graph; or
    subclass it and override, besides `run_step` and the methods after it, these hooks:

    - `_setup()` builds the graph and sets `train_op`; called by `__init__`, inside that graph;
    - `_own_callbacks()` returns the callbacks that run before the user's;
    - `_training_inputs()` returns the input tensors of one training tower, to be timed;
    - `_session_config()` returns the options of the session.

    A subclass may also build in its `__init__`, before or after `super().__init__(config)`; after that call a
    TowerTrainer has its `tower_func` and `source`. The whole `__init__` of a subclass runs inside `graph`.

    Args:
        config: the model, the duration, the callbacks and other arguments of the training.
        processes: the strategy for several processes, such as `distributed.SynchronousProcesses`.
        arguments: the arguments of a `TrainConfig`, instead of `config`.

    Raises:
        ConfigError: the configuration does not suit this trainer, or both forms were given.

    Example:
        ```python
        trainer = Trainer(steps_per_epoch=100, max_epoch=3, callbacks=[ModelSaver()])
        trainer.train_op = train_op
        trainer.train()
        ```
    """

    devices: Sequence[str] = ()
    graph: tf.Graph
    loop: LoopState
    callbacks: Callbacks
    _main_cost: tf.Tensor | None = None  # if set, the description of the model includes its forward pass

    _op: tf.Operation | None = None
    _datapoints_per_step = 1  # datapoints that a step takes from the input, for each tower
    _prologue: PrologueOps | None = None
    _make_prologue: Callable[[], PrologueOps | None] | None = None
    _set_up = False  # once it begins, callbacks and the op of a step are fixed
    _steps: TrainingSteps | None = None

    _has_trained = False
    _sess: tf.Session | None = None
    _hooked: HookedSession | None = None

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Makes what a subclass may use before it calls `__init__` of its base."""
        trainer = super().__new__(cls)
        trainer.graph = tf.Graph()
        trainer._registered = []
        return trainer

    def __init__(
        self, config: TrainConfig | None = None, *, processes: ProcessStrategy | None = None, **arguments: Any
    ) -> None:
        self._registered: list[Callback]
        self.processes = SingleProcess() if processes is None else processes
        self.coord = tf.train.Coordinator()
        with self.processes.failing_together(self.coord):
            self._start(config, arguments)

    def _start(self, config: TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        config = resolve_config(type(self).__name__, config, arguments, self.is_chief)
        self._follow(RunPlan(config, self.processes))
        self._build()

    def _follow(self, plan: RunPlan) -> None:
        self._plan, self.config, self.log_dir, self.seed = plan, plan.config, plan.log_dir, plan.seed
        self.loop, self.monitors, self.callbacks = plan.loop, plan.monitors, Callbacks([])

    def _build(self) -> None:
        self.source = self.config.data
        if self.source is not None:
            seed_data(self.source, self.seed, self.processes)
        configure_process(self._session_config())
        with self.graph.as_default():
            tf.set_random_seed(self.seed)
            self._setup()

    def _setup(self) -> None:
        if type(self) is Trainer and self.config.dataflow is not None:  # a subclass may use it
            raise ConfigError(
                "Trainer itself has no model to feed from dataflow=. Use a trainer with a model, such as "
                "SimpleTrainer; or set up an InputSource in your graph and pass it as data=."
            )

    def _own_callbacks(self) -> list[Callback]:
        source, stall = self.source, self.config.stall_seconds
        callbacks: list[Callback] = [] if math.isinf(stall) else [StallWatch(source, stall)]
        if source is not None:
            callbacks += map(HookToCallback, source.hooks())
            callbacks.append(InputReport(source, self._training_inputs(), self.config.steps_per_run or 1))
        return callbacks

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return ()

    def _tower_inputs(self) -> Sequence[tf.Tensor]:
        return ()

    def _session_config(self) -> tf.ConfigProto:
        if self.config.session_config is not None:
            return self.config.session_config
        return session_config_of_trainer(self.graph, self.devices, not self.processes.single_steps)

    def __repr__(self) -> str:
        """Returns the position of the training: `<SimpleTrainer: epoch 3 of 5, step 135, in train_log/x>`."""
        loop: LoopState | None = getattr(self, "loop", None)  # without it before a configuration
        if loop is None:
            return f"<{type(self).__name__}: without a configuration>"
        end = "" if loop.max_epoch is None else f" of {loop.max_epoch}"
        place = "" if self.log_dir is None else f", in {self.log_dir}"
        return f"<{type(self).__name__}: epoch {loop.epoch_num}{end}, step {loop.global_step}{place}>"

    def register_callback(self, callback: Callback) -> None:
        """Adds a callback that runs after the trainer's own ones and before the user's.

        In a process that is not the chief, a `chief_only` callback is dropped, like the user's.

        Args:
            callback: the callback; several callbacks run in the order of their registration.

        Raises:
            TrainerStateError: the callbacks are already set up.
            TypeError: the object is not a callback.
        """
        if self._set_up:
            raise TrainerStateError(
                f"{type(self).__name__}.register_callback({callback}) was called after the callbacks were "
                "set up by explain() or train(). Register it earlier, or use TrainConfig(callbacks=...)."
            )
        self._registered.extend(Callbacks([callback]))

    @property
    def train_op(self) -> tf.Operation:
        """The op of one step. Assign an op from another graph to train that graph.

        Raises:
            TrainerStateError: no op is set; or (on assignment) the callbacks are already set up.
            TypeError: (on assignment) the value is neither an op nor a tensor of a graph.
            ConfigError: (on assignment) the op is not in the graph that the trainer has built.
        """
        if self._op is None:
            raise TrainerStateError(
                f"{type(self).__name__} has no train_op. Set trainer.train_op, or override _setup() or "
                "run_step()."
            )
        return self._op

    @train_op.setter
    def train_op(self, value: tf.Operation | tf.Tensor) -> None:
        if self._steps is not None:
            raise TrainerStateError("train_op cannot be changed once the callbacks are set up.")
        op = value if isinstance(value, tf.Operation) else getattr(value, "op", value)
        if not isinstance(op, tf.Operation):
            raise TypeError(f"train_op must be a TensorFlow op of a graph, received {op!r}.")
        if op.graph is not self.graph and self.graph.get_operations():
            raise ConfigError(f"train_op {op.name!r} is not in the graph of this trainer.")
        self._op, self.graph = op, op.graph

    def _compose_step(self, per_step: int, make_prologue: Callable[[], PrologueOps | None]) -> None:
        """Makes each step a sequence of several parts.

        Args:
            per_step: the number of datapoints that a step takes from the input, for each tower.
            make_prologue: completes `train_op`, and returns the ops before it. Called once, in the graph,
                after the callbacks are set up, so that their additions to the parts are repeated as well.
        """
        self._datapoints_per_step, self._make_prologue = per_step, make_prologue

    def run_step(self) -> None:
        """Runs one step: each `hooked_sess.run` is one. Override it, or assign `trainer.run_step = f`."""
        self.hooked_sess.run(self.train_op)

    @property
    def sess(self) -> tf.Session:
        """The session, during training. A run in it is not a step, but may take a datapoint."""
        if self._sess is None:
            raise TrainerStateError(
                "There is no session now: it exists from a callback's _before_train to its _after_train."
            )
        return self._sess

    @property
    def hooked_sess(self) -> HookedSession:
        """The session that counts runs as steps, during training."""
        if self._hooked is None:
            raise TrainerStateError("There is no session now: hooked_sess is for run_step().")
        return self._hooked

    @property
    def epoch_num(self) -> int:
        """The current epoch, from 1. An op that needs a counter uses the graph's global step instead."""
        return self.loop.epoch_num

    @property
    def local_step(self) -> int:
        """The current step within the epoch, from 0."""
        return self.loop.local_step

    @property
    def global_step(self) -> int:
        """The number of finished steps."""
        return self.loop.global_step

    @property
    def env_steps(self) -> int:
        """The number of steps of an agent in its environments; 0 for other trainings."""
        return self.loop.env_steps

    def get_predictor(self, input_names: Sequence[str], output_names: Sequence[str]) -> Predictor:
        """Makes a function from input arrays to output arrays that uses the current variables."""
        return make_predictor(lambda: self.sess, self, input_names, output_names)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name from the whole graph; raises a `TensorNotFoundError` for others."""
        return find_tensors(self.graph, names)

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica of the model for evaluation.

        Raises:
            TrainerStateError: the trainer has no model; `TowerTrainer` has one.
        """
        raise TrainerStateError(
            f"{type(self).__name__} cannot build another replica: it has no model. "
            "Use a trainer with a ModelDesc, such as SimpleTrainer."
        )

    headspace = renamed_method("headspace", "measure_input_overhead")

    def measure_input_overhead(self, steps: int = 100) -> InputOverhead:
        """Measures the throughput without input time.

        Args:
            steps: the number of steps to time.

        Raises:
            ConfigError: the trainer has no input; `TowerTrainer` has one.
        """
        raise ConfigError(
            f"{type(self).__name__}.measure_input_overhead: the training has no input from which to hold a "
            "batch. Use a trainer with an input, such as SimpleTrainer, with dataflow= or data=."
        )

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files. A subclass may set it in its body."""
        return self.processes.is_chief

    def state_dict(self) -> dict[str, Any]:
        """Returns the contents of a checkpoint except for variables, as JSON values."""
        return {**self._run_state().state_dict(), **self.processes.state_dict()}

    def save_files(self, directory: Path) -> None:
        """Makes callbacks write their files into folders of a checkpoint, right after `state_dict()`."""
        self.callbacks.save_files(directory)

    def explain(self) -> str:
        """Describes the training. Sets up the callbacks for that, and raises the same errors as `train`."""
        steps, name = self._prepare(), type(self).__name__
        text = describe_training(name, self.devices, self.loop, self.source, str(steps), self.callbacks)
        return Report(text)

    def train(self) -> None:
        """Trains until the last epoch is over, a callback raises `StopTraining`, or an error occurs.

        Raises:
            TrainerStateError: it was called before, or the graph was trained before.
            ConfigError, StatisticError: the steps per epoch, or a statistic that is read, are unknown.
            RestoreError, CheckpointError: the values to start from do not match, or cannot be read.
            EndOfInputError: the input ended before the training.
            KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM, with the step finished and a checkpoint
                written if there is a `ModelSaver`; the exit code is 130 or 143. A second one exits at once.
            Exception: any error of the data, a callback or TensorFlow, with its original type and traceback.
        """
        self._check_unused()
        plan = self._plan
        signals = StopSignals(cancel=self.coord.request_stop)
        trace = TrainingTrace(self.config.trace, self.loop, self.processes.rank)
        with self.processes.failing_together(self.coord), plan.directory, trace, signals:
            steps = self._prepare()
            self.processes.check_agreement(self.loop, self.source)
            self._has_trained = True
            plan.acquire(self.callbacks, self.explain())
            _log.info("%s", describe_trainable_variables(self.graph, self._main_cost))
            sess = self.processes.create_session(self.graph, self._session_config(), plan.start)
            with self._open(sess):
                self.processes.restore(plan.start, sess, self._run_state())
                # The counters of a resumed run's loop are known, regardless of its graph.
                self.loop.global_step = self.loop.global_step or self._counter.value(sess)
                self._hooked = HookedSession(sess, self.callbacks, self.loop, self._counter, steps)
                tensors, op = self._tower_inputs(), self._only_op()
                inputs = TrainingInputs(self.source, tensors, self.callbacks, op, self.graph)
                end = TrainingEnd(self.callbacks, self.loop, inputs, self.coord, self.processes)
                end.run(lambda: self._run_loop(signals), sess, leaving=signals.leave)
                self.processes.leave()

    def _check_unused(self) -> None:
        if self._has_trained:
            raise TrainerStateError(
                "This trainer has already trained. Make a new one, with resume= to continue."
            )
        if self.graph.finalized:
            raise TrainerStateError(
                "The graph is final: it was trained before. Build a new graph for a new training."
            )

    @contextlib.contextmanager
    def _open(self, sess: tf.Session) -> Iterator[None]:
        """Enters a session, which is closed at the end."""
        try:
            with sess as self._sess:
                yield
        finally:
            self._sess = self._hooked = None

    def _prepare(self) -> TrainingSteps:
        if self._steps is not None:
            return self._steps
        config, loop = self.config, self.loop
        loop.steps_per_epoch = resolve_steps_per_epoch(config, self.source, self._datapoints_per_step)
        own, self._set_up = self._own_callbacks(), True
        extra = default_callbacks() if config.extra_callbacks is None else config.extra_callbacks
        self.callbacks = Callbacks([*own, *self._registered, *config.callbacks, *extra, *self.monitors])
        with self.graph.as_default():
            self._counter = StepCounter(self.graph)
            self.processes.add_ops(self.graph)
            self.callbacks.setup_graph(self)
            if self._make_prologue is not None:
                self._prologue = self._make_prologue()
            # XLA would compile the copies again; a limit on each call must apply to each step; and a call of
            # several steps would look like a stall of less than a second.
            options = self._session_config()
            limited = config.xla or options.operation_timeout_in_ms
            self._steps = choose_steps(
                tf.no_op() if self._op is None else self._op,
                self.callbacks,
                loop,
                self._counter,
                steps_per_run=config.steps_per_run,
                own_step=type(self).__name__ if self._has_own_step() or self.processes.single_steps else None,
                may_fuse=not limited and config.stall_seconds >= 1,
                prologue=self._prologue,
                pools=max(1, len(options.session_inter_op_thread_pool)),
                compiled=config.xla,
            )
        return self._steps

    def _has_own_step(self) -> bool:
        return getattr(self.run_step, "__func__", None) is not _RUN_STEP

    def _only_op(self) -> tf.Operation | None:
        """Returns the op that all steps run; None if a step may run anything else."""
        return None if self._has_own_step() else self._op

    def _run_state(self) -> RunState:
        return self._plan.state(self.callbacks, self.source, self._training_inputs())

    def _run_loop(self, signals: StopSignals) -> None:
        run_step = self.processes.guard_step(self._bind_step(), self.loop, self.sess)
        requests = StopRequests(self.coord, signals, self.callbacks, self.is_chief)
        times, dry_run = self.config.steps_per_run or 1, self.config.dry_run
        epochs = TrainingLoop(self.loop, self.callbacks, requests, times, dry_run)
        check_position(times, self.loop)
        self.callbacks.before_train()
        self._plan.start.restore_random_numbers()
        signals.begin()
        # A step may be assigned to the trainer itself at any time.
        epochs.run(self.config.max_epoch, run_step, self.hooked_sess.run_unobserved, own=vars(self))

    def _bind_step(self) -> Callable[[], None]:
        """Returns a function equivalent to `run_step`, without the look-ups in it if it runs one op."""
        op = self._only_op()
        if op is None:
            return lambda: self.run_step()
        hooked_sess, own = self.hooked_sess, vars(self)

        def run_step() -> None:
            if "run_step" in own:
                own["run_step"]()
            else:
                hooked_sess.run(op)

        return run_step


_RUN_STEP = Trainer.run_step
