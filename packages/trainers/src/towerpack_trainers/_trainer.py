"""The loop: a trainer only knows that training runs steps, and that callbacks do the rest."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    Callbacks,
    HookToCallback,
    InferenceTower,
    JSONWriter,
    LoopState,
    Monitors,
    StepCounter,
    StopTraining,
    TFEventWriter,
    explain_callbacks,
    find_tensors,
    make_predictor,
)
from towerpack_callbacks.checkpoint import save_now, set_random_state
from towerpack_inputsource import InputSource

from ._errors import ConfigError, EndOfInputError, TrainerStateError
from .config._train_config import TrainConfig, default_callbacks, default_monitors
from .reports._input_report import InputReport
from .reports._stall_warning import StallWatch
from .restore._resume_point import check_state, find_checkpoint, is_in
from .restore._session_init import fitting_exactly
from .session._run_directory import prepare_log_dir
from .session._session_options import create_session, default_session_config, settle_threads
from .session._stop_signals import StopSignals
from .step import HookedSession, TrainingSteps, check_position, choose_steps
from .towers._variables_table import describe_trainable_variables

__all__ = ["Trainer"]

_log = logging.getLogger("towerpack_trainers")


class Trainer:
    """Runs steps until the last epoch is over. `Callback` draws the loop.

    It makes no assumption about the model: subclass it and override `_setup` (build the graph, set
    `train_op`) or `run_step`, or set `train_op` from a graph of your own. It builds in a graph of its own
    and switches nothing global, so two trainings in one process do not disturb each other.

    Args:
        config: what to train, for how long, with which callbacks.
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

    is_chief = True
    devices: Sequence[str] = ()

    def __init__(self, config: TrainConfig | None = None, **arguments: Any) -> None:
        if config is None:
            config = TrainConfig(**arguments)
        elif arguments:
            raise ConfigError(
                f"{type(self).__name__} received a TrainConfig and {', '.join(arguments)} besides. "
                "Give all of it to the TrainConfig, or leave that out."
            )
        if not isinstance(config, TrainConfig):
            raise ConfigError(f"{type(self).__name__} takes a TrainConfig, received {config!r}.")
        self.config = config
        self.graph = tf.Graph()
        self.coord = tf.train.Coordinator()
        self._signals = StopSignals(cancel=self.coord.request_stop)
        self.source: InputSource | None = config.data
        self.loop = LoopState(
            steps_per_epoch=0,
            max_epoch=config.max_epoch,
            starting_epoch=config.starting_epoch,
            evaluation_batches=config.evaluation_batches,
        )
        if type(self) is Trainer and config.dataflow is not None:
            raise ConfigError(
                "Trainer itself knows no model to feed from dataflow=. Use a trainer that has one, such as "
                "SimpleTrainer; or set up an InputSource in your graph and give it as data=."
            )
        self._checkpoint = find_checkpoint(config.resume, config.log_dir)
        self._scratch = _scratch(config)
        self._random_state: dict[str, Any] | None = None
        self.seed = self._choose_seed()
        monitors = default_monitors() if config.monitors is None else config.monitors
        if config.monitors is None and config.log_dir is None:
            monitors = [m for m in monitors if not isinstance(m, (TFEventWriter, JSONWriter))]
        self.monitors = Monitors(monitors, self.loop)
        self.callbacks = Callbacks([])
        self._train_op: tf.Operation | None = None
        self._sess: tf.Session | None = None
        self._hooked_sess: HookedSession | None = None
        self._steps: TrainingSteps | None = None
        self._steps_per_run = config.steps_per_run or 1
        self._started = False
        settle_threads(self._session_config())
        with self.graph.as_default():
            tf.set_random_seed(self.seed)
            self._setup()

    # ---- what subclasses override

    def _setup(self) -> None:
        """Builds the graph and sets `train_op`; called by `__init__`, inside the trainer's graph."""

    def run_step(self) -> None:
        """Runs one step of the training: each `hooked_sess.run` in it counts as one."""
        self.hooked_sess.run(self.train_op)

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        """Adds a replica of the model for evaluation."""
        raise TrainerStateError(
            f"{type(self).__name__} does not know how to build another replica of the model. "
            "Use a trainer that has a ModelDesc, such as SimpleTrainer."
        )

    def get_predictor(
        self, input_names: Sequence[str], output_names: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """A function from input arrays to output arrays, on the current variables."""
        feeds, fetches = self.get_tensors(input_names), self.get_tensors(output_names)
        return make_predictor(lambda: self.sess, feeds, fetches)

    def get_tensors(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Tensors by name, looked up in the whole graph.

        Raises:
            TensorNotFoundError: there is none; the message lists close names.
        """
        return find_tensors(self.graph, names)

    # ---- what the loop is made of

    @property
    def train_op(self) -> tf.Operation:
        """The op of one step. Setting one from another graph makes the trainer train that graph."""
        if self._train_op is None:
            raise TrainerStateError(
                f"{type(self).__name__} has no train_op. Set trainer.train_op, or override _setup() or "
                "run_step()."
            )
        return self._train_op

    @train_op.setter
    def train_op(self, op: tf.Operation | tf.Tensor) -> None:
        op = op if isinstance(op, tf.Operation) else getattr(op, "op", op)
        if not isinstance(op, tf.Operation):
            raise TypeError(f"train_op must be a TensorFlow op of a graph, received {op!r}.")
        if self._steps is not None:
            raise TrainerStateError("train_op cannot be changed once the callbacks are set up.")
        if op.graph is not self.graph and self.graph.get_operations():
            raise ConfigError(f"train_op {op.name!r} is not in the graph this trainer has built.")
        self.graph = op.graph
        self._train_op = op

    @property
    def sess(self) -> tf.Session:
        """The session, while training. A run in it is no step, yet takes a datapoint if it needs input."""
        if self._sess is None:
            raise TrainerStateError(
                "There is no session now: it exists from a callback's _before_train to its _after_train."
            )
        return self._sess

    @property
    def hooked_sess(self) -> HookedSession:
        """The session whose runs are steps, while training."""
        if self._hooked_sess is None:
            raise TrainerStateError("There is no session now: hooked_sess is for run_step().")
        return self._hooked_sess

    @property
    def log_dir(self) -> Path | None:
        """The directory of this run's files."""
        return self.config.log_dir if self._scratch is None else Path(self._scratch.name)

    def state_dict(self) -> dict[str, Any]:
        """Everything besides variables that a checkpoint holds, as JSON values."""
        state = {
            "loop": self.loop.state_dict(),
            "seed": self.seed,
            "callbacks": self.callbacks.state_dict(),
        }
        if self.source is not None:
            state["input"] = self.source.state_dict()
        return state

    # ---- training

    def train(self) -> None:
        """Trains until the last epoch is over, a callback raises `StopTraining`, or something fails.

        Raises:
            TrainerStateError: it was called before, or the graph was trained before.
            ConfigError: the number of steps per epoch is not known.
            StatisticError: a callback consumes a statistic that nothing before it produces.
            RestoreError, CheckpointError: what to start from does not fit, or cannot be read.
            EndOfInputError: the input ended before the training.
            KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM, with the step finished and a checkpoint
                written if there is a `ModelSaver`; the exit code is 130 or 143. A second one exits at once.
            Exception: whatever the data, a callback or TensorFlow raised, with its own type and traceback.
        """
        if self._started:
            raise TrainerStateError(
                "This trainer has trained already. Make a new one, with resume= to go on."
            )
        if self.graph.finalized:
            raise TrainerStateError(
                "The graph is final: it was trained before. Build it anew for a new training."
            )
        with self._scratch or contextlib.nullcontext(), self._signals:
            steps = self._set_up()
            self._started = True
            if self.log_dir is not None:
                prepare_log_dir(self.log_dir, resuming=is_in(self.log_dir, self._checkpoint))
            _log.info("%s", describe_trainable_variables(self.graph))
            self._train_in_session(steps)

    def explain(self) -> str:
        """Says what the training will do: steps, devices, and what each callback does when.

        It sets the callbacks up, so nothing can be added afterwards; no session is made.

        Raises:
            ConfigError, StatisticError: what `train` would raise before its session exists.
        """
        steps = self._set_up()
        loop, where = self.loop, ", ".join(self.devices) or "one device"
        source = "none" if self.source is None else str(self.source.status())
        return (
            f"{type(self).__name__} on {where}, epochs {loop.starting_epoch} to {loop.max_epoch} "
            f"of {loop.steps_per_epoch} steps\n"
            f"input: {source}\n"
            f"{steps}"
            f"callbacks, in the order they run:\n{explain_callbacks(self.callbacks)}"
        )

    def _set_up(self) -> TrainingSteps:
        if self._steps is None:
            self.loop.steps_per_epoch = self._find_steps_per_epoch()
            given = self.config.extra_callbacks
            extra = default_callbacks() if given is None else given
            users = [*self._own_callbacks(), *self.config.callbacks]
            self.callbacks = Callbacks([*users, *extra, *self.monitors])
            with self.graph.as_default():
                self._counter = StepCounter(self.graph)
                self.callbacks.setup_graph(self)
                self._steps = choose_steps(
                    self._train_op if self._train_op is not None else tf.no_op(),
                    self.callbacks,
                    self.loop,
                    self._counter,
                    steps_per_run=self.config.steps_per_run,
                    own_step=type(self).__name__ if self._has_own_step else None,
                    may_fuse=not self.config.xla,  # XLA would compile the copies once more
                )
        return self._steps

    @property
    def _has_own_step(self) -> bool:
        return type(self).run_step is not Trainer.run_step

    def _own_callbacks(self) -> list[Callback]:
        limit = self.config.stall_seconds
        own: list[Callback] = [] if math.isinf(limit) else [StallWatch(self.source, limit)]
        if self.source is not None:
            own += map(HookToCallback, self.source.hooks())
            own.append(InputReport(self.source, self._training_inputs(), self._steps_per_run))
        return own

    def _training_inputs(self) -> Sequence[tf.Tensor]:
        """What one training tower takes of the input; empty where nobody knows."""
        return ()

    def _train_in_session(self, steps: TrainingSteps) -> None:
        with self.graph.as_default():
            try:
                with self._create_session() as self._sess:
                    self._restore()
                    self.loop.global_step = self._count_steps()
                    self._hooked_sess = HookedSession(
                        self._sess, self.callbacks, self.loop, self._counter, steps
                    )
                    self._train_and_clean_up()
            finally:
                self._sess = self._hooked_sess = None

    def _create_session(self) -> tf.Session:
        return create_session(self.graph, self._session_config(), values=self._initial_values())

    def _initial_values(self) -> dict[str, np.ndarray]:
        """What variables begin with instead of their own initial values: those of the checkpoint."""
        if self._checkpoint is None:
            return {}
        check_state(self._checkpoint)
        source = str(self._checkpoint.path)
        return fitting_exactly(self.graph, self._checkpoint.variables, source, self.config.resume_allow)

    def _session_config(self) -> tf.ConfigProto:
        given = self.config.session_config
        return default_session_config(self.devices) if given is None else given

    def _restore(self) -> None:
        if self._checkpoint is not None:
            checkpoint, self._checkpoint = self._checkpoint, None
            allow = self.config.resume_allow
            self.loop.load_state_dict(checkpoint.state["loop"])
            check_position(self._steps_per_run, self.loop)
            self.callbacks.load_state_dict(checkpoint.state["callbacks"], allow_unknown="callbacks" in allow)
            self._restore_input(checkpoint.state.get("input"))
            self._random_state = checkpoint.state.get("random")
            _log.info("Going on from %s.", checkpoint.path)
        elif self.config.session_init is not None:
            self.config.session_init.restore(self.sess)

    def _restore_input(self, position: dict[str, Any] | None) -> None:
        if self.source is None or position is None:
            return
        if "input" in self.config.resume_allow:
            _log.warning("The data starts anew, as resume_allow has it: %s", position)
            return
        if position.get("flow", position) is None:
            _log.warning(
                "The data cannot say its position, so it starts anew: the resumed run will differ from an "
                "uninterrupted one. A DataFlow can say it, for example DataFromList(your_list)."
            )
        self.source.load_state_dict(position)

    def _train_and_clean_up(self) -> None:
        """Runs the loop; whatever happens, all `_after_train` run before anything is raised."""
        failure: BaseException | None = None
        try:
            with self.sess.as_default():
                try:
                    self._run_loop()
                finally:
                    self._signals.leave()
        except StopTraining as reason:
            _log.info("Training stops at step %d: %s", self.loop.global_step, reason)
        except BaseException as caught:
            failure = caught
        # Outside of the handler: an error of the data shall not be shown as caused by the ops it woke.
        error = None if failure is None else self._explain(failure)
        self.coord.request_stop()
        try:
            self.callbacks.after_train()
        except Exception as late:
            if error is None:
                raise
            if late is not error:  # a thread's, which the loop has raised already
                _log.exception("A callback failed in after_train, after the training had failed")
        if error is not None:
            raise error

    def _run_loop(self) -> None:
        loop, max_epoch, times = self.loop, self.config.max_epoch, self._steps_per_run
        signals, threads_failed = self._signals, self.coord.should_stop
        run_unobserved, trigger_step = self.hooked_sess.run_unobserved, self.callbacks.trigger_step
        run_step = self._step_function()
        end_epoch = self.callbacks.trigger_all if self.config.rehearsal else self.callbacks.trigger_epoch
        self.callbacks.before_train()
        if self._random_state is not None:
            set_random_state(self._random_state)
        signals.begin()
        if loop.starting_epoch > max_epoch:
            _log.info("Nothing left to train: epoch %d of %d is done.", loop.epoch_num, max_epoch)
        for epoch in range(loop.starting_epoch, max_epoch + 1):
            loop.epoch_num = epoch
            self.callbacks.before_epoch()
            first = loop.starting_step if epoch == loop.starting_epoch else 0
            loop.local_step = first - 1
            while not loop.is_last_step:
                if not run_unobserved():
                    loop.local_step += times
                    run_step()
                    trigger_step(loop.global_step, epoch, loop.is_last_step)
                if signals.requested is not None or threads_failed():
                    self._stop_if_asked(amid_triggers=loop.is_last_step)
            self.callbacks.after_epoch()
            end_epoch()
            self._stop_if_asked(amid_triggers=False)

    def _step_function(self) -> Callable[[], None]:
        """Returns `run_step`, without the look-ups in it unless a subclass has its own."""
        if self._has_own_step:
            return self.run_step
        hooked_sess, train_op = self.hooked_sess, self.train_op

        def run_step() -> None:
            hooked_sess.run(train_op)

        return run_step

    def _count_steps(self) -> int:
        return self._counter.value(self.sess)

    def _stop_if_asked(self, amid_triggers: bool) -> None:
        """Raises what a thread beside the training has failed with; after a signal, saves and stops."""
        self.coord.raise_requested_exception()
        if self._signals.requested is None or amid_triggers:
            return
        with self._signals.saving():
            if not save_now(self.callbacks) and self.is_chief:
                _log.warning("There is no ModelSaver among the callbacks, so nothing is saved.")
        raise self._signals.exception()

    def _explain(self, caught: BaseException) -> BaseException | None:
        """Finds what really happened when a run failed: a background thread's error wakes it with another."""
        if isinstance(caught, tf.errors.OpError):
            cause = _failure_of_threads(self.coord)
            if cause is not None:
                return cause
        if type(caught) is RuntimeError and "finalized" in str(caught):
            late = TrainerStateError(
                "An op was added to the graph after training had begun. The graph is final then: make ops in "
                "_setup_graph of a callback, or in the model."
            )
            late.__cause__ = caught
            return late
        if not isinstance(caught, tf.errors.OutOfRangeError):
            return caught
        if self.source is not None and not self.source.infinite:
            _log.info("The input, declared finite, ended at step %d.", self.loop.global_step)
            return None
        ended = EndOfInputError(
            f"The training input ended at step {self.loop.global_step} (epoch {self.loop.epoch_num}), before "
            "the training did. Repeat the data, or declare it finite (infinite=False) if it may end training."
        )
        ended.__cause__ = caught
        return ended

    # ---- where it starts

    def _find_steps_per_epoch(self) -> int:
        steps = self.config.steps_per_epoch
        if steps is None and self.source is not None:
            steps = self.source.size()
        if steps == 0:
            raise ConfigError("The data is empty: one pass has no datapoint. Look at its source and filters.")
        if steps is None:
            raise ConfigError(
                "TrainConfig has no steps_per_epoch, and the data does not say how long one pass is. "
                "Give TrainConfig(steps_per_epoch=...)."
            )
        return steps

    def _choose_seed(self) -> int:
        if self._checkpoint is not None and "seed" in self._checkpoint.state:
            return int(self._checkpoint.state["seed"])
        if self.config.seed is not None:
            return self.config.seed
        seed = int.from_bytes(os.urandom(4), "little") >> 1
        _log.info("No seed was given; this run draws from seed %d.", seed)
        return seed


def _scratch(config: TrainConfig) -> tempfile.TemporaryDirectory[str] | None:
    """A place for the files of a run that is to be forgotten."""
    if not config.rehearsal or config.log_dir is None:
        return None
    return tempfile.TemporaryDirectory(prefix="towerpack-rehearsal-")


def _failure_of_threads(coord: tf.train.Coordinator) -> BaseException | None:
    try:
        coord.raise_requested_exception()
    except BaseException as cause:
        return cause
    return None
