"""Runs callbacks as TensorFlow's session hooks, and session hooks as callbacks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import CallbackFailedError, CallbackStateError, CheckpointError, StopTraining
from ..callback._callback import Callback, is_replaced
from ..callback._every import LoopState
from ..callback._trainer_protocol import InferenceTower, TrainerProtocol
from ..checkpoint import (
    Checkpoint,
    assign_variables,
    latest_checkpoint,
    read_checkpoint,
    save_now,
    set_random_state,
)
from ..monitors import Monitor, Monitors, ScalarPrinter, file_monitors
from ._callbacks import Callbacks
from ._plain_loop import LoopBase
from ._step_counter import StepCounter
from ._step_runner import StepRunner

__all__ = ["DataPosition", "HookToCallback", "ResumePoint", "as_session_hooks"]

_log = logging.getLogger("towerpack_callbacks")


class DataPosition(Protocol):
    """An object with a position in the data, such as an input source."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next datapoint."""

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Sets the position at which the next session starts."""


@final
class ResumePoint:
    """Restores variables, counters, callbacks and the position in the data from a checkpoint.

    Args:
        checkpoint: the checkpoint; its arrays are released after they are assigned.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not {"loop", "callbacks"} <= set(checkpoint.state):
            raise CheckpointError(
                f"{checkpoint.path} contains only variables and no training state: a run cannot resume from "
                "it. Give a checkpoint of a ModelSaver."
            )
        self._path, self._state = checkpoint.path, checkpoint.state
        self._files = checkpoint.callback_files
        self._variables = checkpoint.variables

    @classmethod
    def find(cls, resume: str | Path | None, log_dir: Path | None) -> ResumePoint | None:
        """Reads the checkpoint to resume from; returns None for a new run.

        Raises:
            CheckpointError: the checkpoint cannot be read, or contains no training state.
            ValueError: `resume` is "auto" without a log directory.
        """
        if resume == "auto":
            if log_dir is None:
                raise ValueError(
                    'resume="auto" looks for a checkpoint in log_dir=, but log_dir is None. Give a directory.'
                )
            latest = latest_checkpoint(log_dir)
            return None if latest is None else cls(read_checkpoint(latest))
        return None if resume is None else cls(read_checkpoint(resume))

    def restore_data(self, data: DataPosition | None) -> None:
        """Restores the position in the data, before the session that reads them starts."""
        if data is None or not self._state.get("input"):
            return
        try:
            data.load_state_dict(self._state["input"])
        except ValueError as error:
            raise CheckpointError(f"{self._path} was saved with different data: {error}") from error

    def restore(self, sess: tf.Session, loop: LoopState, callbacks: Callbacks) -> None:
        """Restores variables, counters and callbacks in a new session.

        Raises:
            CheckpointError: the variables differ from those of the graph, or a state belongs to a callback
                that this run lacks.
        """
        values, self._variables = self._variables, {}
        self._check_names(sess.graph, values)
        try:
            assign_variables(sess, values)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{self._path} does not match this graph: {error.args[0]}") from error
        loop.load_state_dict(self._state["loop"])
        callbacks.load_state_dict(self._state["callbacks"], files=self._files)
        _log.info("Resuming from %s.", self._path)

    def restore_random_numbers(self) -> None:
        """Restores the generators of Python and NumPy, right before the first step."""
        if self._state.get("random") is not None:
            set_random_state(self._state["random"])

    def _check_names(self, graph: tf.Graph, values: Mapping[str, np.ndarray]) -> None:
        names = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
        only = {"the graph": names - values.keys(), "the checkpoint": values.keys() - names}
        found = [f"only in {side}: {', '.join(sorted(differ))}" for side, differ in only.items() if differ]
        if found:
            raise CheckpointError(
                f"{self._path} and this graph have different variables ({'; '.join(found)}). Build the same "
                "model with the same callbacks; or start a new run and assign matching values by "
                "assign_variables(sess, load_variables(path))."
            )


# The errors that a monitored session treats as the end of the data or as a preemption.
_MEANT_FOR_SESSIONS = (
    tf.errors.OutOfRangeError,
    StopIteration,
    tf.errors.AbortedError,
    tf.errors.UnavailableError,
)


@final
class HookToCallback(Callback):
    """Runs a plain `SessionRunHook` as a callback.

    Its `end` is also called after an error, so that threads and files are closed.

    Attributes:
        hook: the hook.

    Args:
        hook: the hook.

    Raises:
        TypeError: the hook is not a `SessionRunHook`.

    Example:
        >>> callbacks = [HookToCallback(tf.train.NanTensorHook("cost:0"))]
    """

    chief_only = False

    def __init__(self, hook: tf.train.SessionRunHook) -> None:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"HookToCallback takes a SessionRunHook, received {hook!r}.")
        self.hook = hook

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        self._trainer = trainer
        with trainer.graph.as_default():
            self.hook.begin()

    def _before_train(self) -> None:
        self.hook.after_create_session(self.trainer.sess, self.trainer.coord)

    def _before_run(self, context: Any) -> Any:
        return self.hook.before_run(context)

    def _after_run(self, context: Any, run_values: Any) -> None:
        self.hook.after_run(context, run_values)

    def _after_train(self) -> None:
        self.hook.end(self.trainer.sess)

    def overrides(self, method: str) -> bool:
        names = {"_before_run": "before_run", "_after_run": "after_run"}
        if method in names:
            return is_replaced(self.hook, tf.train.SessionRunHook, names[method])
        return super().overrides(method)

    def __str__(self) -> str:
        return type(self.hook).__name__


def as_session_hooks(
    callbacks: Iterable[Callback | Callbacks],
    *,
    steps_per_epoch: int,
    max_epoch: int | None = None,
    log_dir: str | Path | None = None,
    monitors: Sequence[Monitor] | None = None,
    resume: str | Path | None = None,
    data: DataPosition | None = None,
) -> list[tf.train.SessionRunHook]:
    """Makes hooks that run callbacks in any `MonitoredTrainingSession`, on any graph.

    Every run of the session counts as one step. If the graph's training op increments `global_step`, the
    hooks use it; otherwise they count. Callbacks that need a description of the model (`InferenceRunner`)
    require a trainer instead.

    Every `_after_train` runs before the session is closed, also after an error, provided that the session is
    closed by `with` or by `close()`. If a session would misinterpret an error of a callback, such as
    `OutOfRangeError` as the end of the data, it is raised as a `CallbackFailedError`.

    Args:
        callbacks: the callbacks, in their order.
        steps_per_epoch: steps in an epoch, at least 1.
        max_epoch: the number of epochs after which the session is requested to stop; None: no limit.
        log_dir: the directory for checkpoints and statistics; None: no files are written.
        monitors: the recorders of statistics; None, with a `log_dir`: event files, JSON lines
            and the console.
        resume: the checkpoint of a `ModelSaver` to resume from, with its variables, counters and callbacks'
            states; "auto": the latest one in `log_dir`, if any; None: do not restore anything.
        data: an object with a position in the data, such as the session's input source. Checkpoints store the
            position, and it is restored before the session starts. Also pass `data.hooks()` to the session.

    Returns:
        Hooks to pass to the session.

    Raises:
        ValueError: `steps_per_epoch` is not a positive whole number, or `resume` is "auto" without a
            `log_dir`.
        CheckpointError: (also when the session is created) the checkpoint cannot be read or does not match.

    Example:
        ```python
        hooks = as_session_hooks([ModelSaver()], steps_per_epoch=100, log_dir="train_log/mine", resume="auto")
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(train_op)
        ```
    """
    if not isinstance(steps_per_epoch, int) or steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch={steps_per_epoch!r}: expected a whole number of at least 1.")
    directory = None if log_dir is None else Path(log_dir)
    if monitors is None:
        monitors = [] if directory is None else [*file_monitors(), ScalarPrinter()]
    loop = LoopState(steps_per_epoch=steps_per_epoch, max_epoch=max_epoch)
    recorders = Monitors(monitors, loop)
    trainer = _HookLoop([*callbacks, *recorders], recorders, loop, directory)
    trainer.data = data
    return [_CallbacksHook(trainer, ResumePoint.find(resume, directory))]


@final
class _HookLoop(LoopBase):
    """The loop of a monitored session."""

    data: DataPosition | None = None

    def state_dict(self) -> dict[str, Any]:
        position = {} if self.data is None else {"input": self.data.state_dict()}
        return {**super().state_dict(), **position}

    def build_inference_tower(self, source: Any, name: str, devices: Sequence[str] = ()) -> InferenceTower:
        raise CallbackStateError(
            "These callbacks run on session hooks, which cannot build another replica of the model. Use a "
            "trainer with a ModelDesc for InferenceRunner."
        )


@final
class _CallbacksHook(tf.train.SessionRunHook):
    """Drives `Callbacks` from the events of a monitored session."""

    def __init__(self, trainer: _HookLoop, resume: ResumePoint | None) -> None:
        self._trainer = trainer
        self._resume = resume
        self._callbacks = trainer.callbacks
        self._loop = trainer.loop
        self._running = self._in_step = False
        self._first_step = 0

    def begin(self) -> None:
        self._trainer.graph = tf.get_default_graph()
        self._counter = StepCounter(self._trainer.graph)
        self._callbacks.setup_graph(self._trainer)
        if self._resume is not None:
            self._resume.restore_data(self._trainer.data)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._trainer.sess, self._trainer.coord = session, coord
        # A session that replaces a lost one continues from the state that TensorFlow restores.
        resume, self._resume = self._resume, None
        loop = self._loop
        if resume is None:
            self._go_on_at(self._counter.value(session))
        else:
            resume.restore(session, loop, self._callbacks)
        loop.local_step, self._first_step = loop.starting_step - 1, loop.global_step
        self._steps = StepRunner(session, self._callbacks, loop, self._counter)
        self._running = True
        coord.register_thread(_BeforeSessionClose(self._end_after_error))
        try:
            self._callbacks.before_train()
            if resume is not None:
                resume.restore_random_numbers()
            self._start_epoch()
            if loop.is_last_step:  # the checkpoint was made before the triggers of an epoch's end
                self._end_epoch(coord)
        except StopTraining as reason:
            _log.info("Training does not start: %s", reason)
            coord.request_stop()
        except BaseException as error:
            try:
                self._refuse(error)
            finally:
                self._end_after_error()
            raise

    def _go_on_at(self, step: int) -> None:
        """Sets the counters to the epoch of a step, since a session may restore any step."""
        loop = self._loop
        loop.global_step = step
        epochs, loop.starting_step = divmod(step, loop.steps_per_epoch)
        loop.starting_epoch, loop.epoch_num = epochs + 1, epochs

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        self._loop.local_step += 1
        self._in_step = True
        try:
            self._request = request = self._steps.request(run_context)
        except _MEANT_FOR_SESSIONS as error:
            self._refuse(error)
            raise
        return tf.train.SessionRunArgs(request.fetches, request.feeds or None, request.options)

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        loop = self._loop
        try:
            self._steps.deliver(self._request, run_values)
            self._in_step = False
            self._callbacks.trigger_step(loop.global_step, loop.epoch_num, loop.is_last_step)
            if loop.is_last_step:
                self._end_epoch(run_context)
        except StopTraining as reason:
            _log.info("Training stops at step %d: %s", loop.global_step, reason)
            run_context.request_stop()
        except _MEANT_FOR_SESSIONS as error:
            self._refuse(error)
            raise

    def end(self, session: tf.Session) -> None:
        self._running = False
        try:
            self._save_last_steps()
        finally:
            self._callbacks.after_train()

    def _save_last_steps(self) -> None:
        """Saves the steps of an unfinished epoch when the session ends normally."""
        loop = self._loop
        loop.local_step -= self._in_step  # a step without data is not finished
        ended = loop.max_epoch is not None and loop.epoch_num >= loop.max_epoch and not loop.triggers_due
        if loop.global_step > self._first_step and not ended:
            save_now(self._callbacks)

    def _end_after_error(self) -> None:
        if not self._running:
            return
        self._running = False
        trainer = self._trainer
        with trainer.graph.as_default(), trainer.sess.as_default():
            try:
                self._callbacks.after_train()
            except Exception:
                _log.exception("A callback failed in after_train, after the training had failed")

    def _refuse(self, error: BaseException) -> None:
        """Replaces an error of a callback that the session would swallow or recover from."""
        callback = self._callbacks.raiser_of(error)
        # An error of a hook is kept as it is: the hook may belong to an input.
        if isinstance(error, _MEANT_FOR_SESSIONS) and not isinstance(callback, HookToCallback):
            raise CallbackFailedError(
                f"The callback {callback} raised {type(error).__name__} at step {self._loop.global_step}: "
                f"{error}. A monitored session would treat it as the end of the data or as a lost process. "
                "Handle it in the callback, or raise another error."
            ) from error

    def _start_epoch(self) -> None:
        loop = self._loop
        if loop.max_epoch is not None and loop.epoch_num >= loop.max_epoch:  # a finished run was resumed
            _log.info("Epoch %d was the last one; no steps are left to train.", loop.epoch_num)
            self._trainer.coord.request_stop()
            return
        loop.epoch_num += 1
        self._callbacks.before_epoch()

    def _end_epoch(self, session: tf.train.SessionRunContext | tf.train.Coordinator) -> None:
        self._callbacks.after_epoch()
        self._callbacks.trigger_epoch()
        if self._loop.max_epoch is not None and self._loop.epoch_num >= self._loop.max_epoch:
            session.request_stop()
        else:
            self._loop.local_step = -1
            self._start_epoch()


@final
class _BeforeSessionClose(threading.Thread):
    """Calls a function before a monitored session is closed, also after an error.

    After an error, TensorFlow does not call `end` of hooks. But it waits for the threads of the session's
    coordinator. This thread is never started; when TensorFlow checks whether it is alive, it runs the
    function.

    Args:
        function: called by the thread that closes the session.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__(name="towerpack-last-moment", daemon=True)
        self._function = function

    def is_alive(self) -> bool:
        """Calls the function; returns False."""
        self._function()
        return False
