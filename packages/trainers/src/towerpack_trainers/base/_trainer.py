"""The base class of trainers. A trainer runs steps; callbacks do everything else."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    StepCounter,
    find_tensors,
)

from ..config._resolve_config import (
    refuse_dataflow,
    resolve_callbacks,
    resolve_config,
    resolve_input_callbacks,
    resolve_steps,
    resolve_steps_per_epoch,
)
from ..config._run_plan import RunPlan
from ..config._train_config import TrainConfig
from ..reports._describe_training import describe_trainable_variables, describe_training
from ..restore import RunState
from ..session import (
    CallbackRegistration,
    LoopCounters,
    ProcessStrategy,
    SessionAccess,
    SingleProcess,
    StopRequests,
    StopSignals,
    TrainingEnd,
    TrainingInputs,
    TrainingLoop,
    TrainingSession,
    TrainOp,
    build_in_graph,
    configure_process,
    default_session_config,
    graph_of,
    seed_data,
)
from ..step import HookedSession, TrainingSteps, check_position
from ..towers._devices import devices_of_towers
from ..towers._predictor import Predictor, make_predictor
from ._needs_model import NeedsModel

__all__ = ["Trainer"]

_log = logging.getLogger("towerpack_trainers")


class Trainer(LoopCounters, SessionAccess, CallbackRegistration, NeedsModel):
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
    _main_cost: tf.Tensor | None = None  # if set, the description of the model includes its forward pass

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Makes the whole `__init__` of a subclass run inside the trainer's graph."""
        super().__init_subclass__(**arguments)
        build_in_graph(cls)

    def __init__(
        self, config: TrainConfig | None = None, *, processes: ProcessStrategy | None = None, **arguments: Any
    ) -> None:
        self.processes = SingleProcess() if processes is None else processes
        self.graph, self.coord = graph_of(self), tf.train.Coordinator()
        self._signals = StopSignals(cancel=self.coord.request_stop)
        self._session, self._train_op = TrainingSession(), TrainOp()
        self._steps: TrainingSteps | None = None
        with self.processes.failing_together(self.coord):
            self._start(config, arguments)

    def _start(self, config: TrainConfig | None, arguments: Mapping[str, Any]) -> None:
        config = resolve_config(type(self).__name__, config, arguments, self.is_chief)
        self._follow(RunPlan.of(config, self.processes))
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
        if type(self) is Trainer:  # a subclass may use it
            refuse_dataflow(self.config)

    def _own_callbacks(self) -> list[Callback]:
        return resolve_input_callbacks(self.config, self.source, self._training_inputs())

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        return ()

    def _tower_inputs(self) -> Sequence[tf.Tensor]:
        return ()

    def _session_config(self) -> tf.ConfigProto:
        devices = [*self.devices, *devices_of_towers(self.graph)]
        return self.config.session_config or default_session_config(devices)

    def run_step(self) -> None:
        """Runs one step: each `hooked_sess.run` is one. Override it, or assign `trainer.run_step = f`."""
        self._session.hooked.run(self.train_op)

    def get_predictor(self, input_names: Sequence[str], output_names: Sequence[str]) -> Predictor:
        """Makes a function from input arrays to output arrays that uses the current variables."""
        return make_predictor(lambda: self.sess, self, input_names, output_names)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name from the whole graph; raises a `TensorNotFoundError` for others."""
        return find_tensors(self.graph, names)

    @property
    def train_op(self) -> tf.Operation:
        """The op of one step. Assign an op from another graph to train that graph."""
        return self._train_op.get(type(self).__name__)

    @train_op.setter
    def train_op(self, op: tf.Operation | tf.Tensor) -> None:
        self.graph = self._train_op.put(op, self.graph).graph

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files. A subclass may set it in its body."""
        return self.processes.is_chief

    def state_dict(self) -> dict[str, Any]:
        """Returns the contents of a checkpoint except for variables, as JSON values."""
        return {**self._run_state().state_dict(), **self.processes.state_dict()}

    def explain(self) -> str:
        """Describes the training. Sets up the callbacks for that, and raises the same errors as `train`."""
        steps, name = self._prepare(), type(self).__name__
        return describe_training(name, self.devices, self.loop, self.source, str(steps), self.callbacks)

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
        self._session.check_unused(self.graph)
        plan = self._plan
        with self.processes.failing_together(self.coord), plan.directory, plan.trace, self._signals:
            steps = self._prepare()
            self.processes.check_agreement(self.loop, self.source)
            self._session.use()
            plan.occupy(self.callbacks, self.explain())
            _log.info("%s", describe_trainable_variables(self.graph, self._main_cost))
            sess = self.processes.create_session(self.graph, self._session_config(), self._plan.start)
            with self._session.open(sess):
                self.processes.restore(self._plan.start, sess, self._run_state())
                # The counters of a resumed run's loop are known, regardless of its graph.
                self.loop.global_step = self.loop.global_step or self._counter.value(sess)
                self._session.hooked = HookedSession(sess, self.callbacks, self.loop, self._counter, steps)
                tensors, op = self._tower_inputs(), self._only_op()
                inputs = TrainingInputs(self.source, tensors, self.callbacks, op, self.graph)
                end = TrainingEnd(self.callbacks, self.loop, inputs, self.coord, self.processes)
                end.run(self._run_loop, sess, leaving=self._signals.leave)
                self.processes.leave()

    def _prepare(self) -> TrainingSteps:
        if self._steps is not None:
            return self._steps
        self.loop.steps_per_epoch = resolve_steps_per_epoch(self.config, self.source, self._train_op.takes)
        ours = self._with_registered(self._own_callbacks())
        self.callbacks = resolve_callbacks(self.config, ours, self.monitors)
        with self.graph.as_default():
            self._counter = StepCounter(self.graph)
            self.processes.add_ops(self.graph)
            self.callbacks.setup_graph(self)
            op, lead, options = self._train_op.fix(), self._train_op.lead, self._session_config()
            own = type(self).__name__ if self._has_own_step() or self.processes.single_steps else None
            self._steps = resolve_steps(
                self.config, options, op, self.callbacks, self.loop, self._counter, own, lead
            )
        return self._steps

    def _has_own_step(self) -> bool:
        return getattr(self.run_step, "__func__", None) is not _RUN_STEP

    def _only_op(self) -> tf.Operation | None:
        """Returns the op that all steps run; None if a step may run anything else."""
        return None if self._has_own_step() else self._train_op.op

    def _run_state(self) -> RunState:
        return self._plan.state(self.callbacks, self.source, self._training_inputs())

    def _run_loop(self) -> None:
        run_step = self._session.bind_step(self, self._only_op())
        run_step = self.processes.guard_step(run_step, self.loop, self.sess)
        requests = StopRequests(self.coord, self._signals, self.callbacks, self.is_chief)
        times, rehearses = self.config.steps_per_run or 1, self.config.rehearsal
        epochs = TrainingLoop(self.loop, self.callbacks, requests, times, rehearses)
        check_position(times, self.loop)
        self.callbacks.before_train()
        self._plan.start.restore_random_numbers()
        self._signals.begin()
        # A step may be assigned to the trainer itself at any time.
        epochs.run(self.config.max_epoch, run_step, self.hooked_sess.run_unobserved, own=vars(self))


_RUN_STEP = Trainer.run_step
