"""What a training is made of. A trainer only knows that it runs steps, and that callbacks do the rest."""

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
    """Runs steps until the last epoch is over. `Callback` draws the loop.

    It makes no assumption about the model, and builds in a graph of its own. Set `train_op` from a graph of
    your own; or subclass it and override, besides `run_step` and what follows it,

    - `_setup()`, which builds the graph and sets `train_op`; called by `__init__`, inside that graph;
    - `_own_callbacks()`, which returns the callbacks that run before the user's;
    - `_training_inputs()`, which returns the tensors of one training tower's input, to be timed;
    - `_session_config()`, which returns the options of the session.

    A subclass may build in its `__init__` instead, before or after `super().__init__(config)`, after which
    a TowerTrainer has its `tower_func` and `source`. All of a subclass's `__init__` runs inside `graph`.

    Args:
        config: what to train, for how long, with which callbacks.
        processes: how this process trains together with others, such as `distributed.SynchronousProcesses`.
        arguments: those of a `TrainConfig`, instead of one.

    Raises:
        ConfigError: the configuration does not suit this trainer, or there are two.

    Example:
        ```python
        trainer = Trainer(steps_per_epoch=100, max_epoch=3, callbacks=[ModelSaver()])
        trainer.train_op = train_op
        trainer.train()
        ```
    """

    devices: Sequence[str] = ()
    graph: tf.Graph
    _main_cost: tf.Tensor | None = None  # where there is one, the description of the model says what it takes

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Lets a subclass build in its `__init__`, too: all of that runs inside the trainer's graph."""
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
        if type(self) is Trainer:  # a subclass may have a use for it
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
        """Runs one step of the training: each `hooked_sess.run` in it counts as one.

        A subclass may override it, or `trainer.run_step = f` replace it; then each step is a call of that.
        """
        self._session.hooked.run(self.train_op)

    def get_predictor(self, input_names: Sequence[str], output_names: Sequence[str]) -> Predictor:
        """Makes a function from input arrays to output arrays, on the current variables."""
        return make_predictor(lambda: self.sess, self, input_names, output_names)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Returns tensors by name, looked up in the whole graph, or raises a `TensorNotFoundError`."""
        return find_tensors(self.graph, names)

    @property
    def train_op(self) -> tf.Operation:
        """The op of one step. Setting one from another graph makes the trainer train that graph."""
        return self._train_op.get(type(self).__name__)

    @train_op.setter
    def train_op(self, op: tf.Operation | tf.Tensor) -> None:
        self.graph = self._train_op.put(op, self.graph).graph

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files; a subclass may set it in its body."""
        return self.processes.is_chief

    def state_dict(self) -> dict[str, Any]:
        """Returns everything besides variables that a checkpoint holds, as JSON values."""
        return {**self._run_state().state_dict(), **self.processes.state_dict()}

    def explain(self) -> str:
        """Describes the training. Sets the callbacks up for that, and raises what `train` would raise."""
        steps, name = self._prepare(), type(self).__name__
        return describe_training(name, self.devices, self.loop, self.source, str(steps), self.callbacks)

    def train(self) -> None:
        """Trains until the last epoch is over, a callback raises `StopTraining`, or something fails.

        Raises:
            TrainerStateError: it was called before, or the graph was trained before.
            ConfigError, StatisticError: steps per epoch, or a statistic that is consumed, are not known.
            RestoreError, CheckpointError: what to start from does not fit, or cannot be read.
            EndOfInputError: the input ended before the training.
            KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM, with the step finished and a checkpoint
                written if there is a `ModelSaver`; the exit code is 130 or 143. A second one exits at once.
            Exception: whatever the data, a callback or TensorFlow raised, with its own type and traceback.
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
                # What the loop of a resumed run has counted is known, whatever its graph wrote.
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
        """Returns the op that all steps run; None if they may run something else."""
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
        # A step may be put on the trainer itself at any time.
        epochs.run(self.config.max_epoch, run_step, self.hooked_sess.run_unobserved, own=vars(self))


_RUN_STEP = Trainer.run_step
