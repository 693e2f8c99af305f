"""The end of a training: requests to stop, the real cause, and the work before its error is raised."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, HookToCallback, LoopState, StopTraining
from towerpack_callbacks.checkpoint import save_now
from towerpack_inputsource import InputSource

from .._errors import EndOfInputError, TrainerStateError
from ..towers._tower import ended_apart_from
from ._process_strategy import ProcessStrategy

__all__ = ["StopRequests", "StopSignals", "TrainingEnd", "TrainingInputs", "translate_error"]

_log = logging.getLogger("towerpack_trainers")


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IGNORES_CTRL_C = (
    "This process was started to ignore SIGINT, as shells do for background jobs: Ctrl-C does not end "
    "this training. Use `kill %d` (SIGTERM) to end it and save."
)


# Hooks of `os.register_at_fork` stay for the life of a process.
_watching: weakref.WeakSet[StopSignals] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for signals in list(_watching):
        signals._let_go_in_child()
    _watching.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


@final
class StopSignals:
    """While it is entered, the first Ctrl-C or SIGTERM stops the loop; a second one ends the process.

    The effect of the first one depends on the phase of the training:

    | phase | effect |
    | --- | --- |
    | before the first step | the training ends: there is nothing to save |
    | steps, evaluations | `requested` is set; the loop finishes step and triggers, saves, leaves |
    | … that do not end within 10 s | `cancel` is called, and waits in Python are interrupted |
    | saving, leaving | the phase is finished |

    A Python signal handler runs between two instructions, and so not while a step waits for data. Therefore
    a thread receives signals as well: the C library writes them to a socket (`signal.set_wakeup_fd`).

    A forked process inherits none of it: it would write its own signals to that socket, and keep it open.

    Outside of the main thread nothing is installed, and signals that the process ignores or handles itself
    are not changed. At the end the original state is restored; then the exception of the signal is raised:
    `KeyboardInterrupt`, or `SystemExit(143)`.

    Args:
        cancel: ends the wait of a step for data; called on another thread.
        grace_seconds: the time, in seconds, for a step or an evaluation to end before it is interrupted.
        debounce_seconds: signals within this time after the first, in seconds, count as one: a supervisor may
            signal the process and its group at the same time.
        retry_seconds: the time between interruptions, in seconds. A signal right before the main thread
            begins to wait for a lock does not end that wait.
    """

    def __init__(
        self,
        cancel: Callable[[], None],
        grace_seconds: float = 10.0,
        debounce_seconds: float = 0.5,
        retry_seconds: float = 0.5,
    ) -> None:
        self.requested: signal.Signals | None = None
        self._cancel = cancel
        self._grace_seconds = grace_seconds
        self._debounce_seconds = debounce_seconds
        self._retry_seconds = retry_seconds
        self._phase = "start"
        self._interrupting = False
        self._raised = False
        self._resent = False
        self._first_at: float | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._old_wakeup = -1
        self._reader: socket.socket | None = None
        # Handlers are not restored meanwhile: the old ones may end the process.
        self._sending = threading.Lock()

    # ---- what the trainer calls

    def begin(self) -> None:
        """Begins the phase with something to save."""
        self._phase = "training"

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Returns a context that only a second signal interrupts."""
        before, self._phase = self._phase, "saving"
        try:
            yield
        finally:
            self._phase = before

    def leave(self) -> None:
        """Begins the last phase: training is ending."""
        self._phase = "leaving"

    def exception(self) -> BaseException:
        """Returns the exception for a training stopped by a signal."""
        assert self.requested is not None
        if self.requested == signal.SIGINT:
            return KeyboardInterrupt()
        return SystemExit(128 + self.requested)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
                _log.warning(_IGNORES_CTRL_C, os.getpid())
            ours = {number: signal.getsignal(number) for number in _SIGNALS}
            self._before = {
                number: handler
                for number, handler in ours.items()
                if handler in (signal.SIG_DFL, signal.default_int_handler)
            }
        if self._before:
            self._start_thread()
            for number in self._before:
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()
        with self._sending:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if self._reader is not None:
            signal.set_wakeup_fd(self._old_wakeup, warn_on_full_buffer=False)
            # Closing alone would not end the thread while a forked process has the socket.
            self._writer.shutdown(socket.SHUT_RDWR)
            self._writer.close()
            self._thread.join()
            self._reader.close()
            _watching.discard(self)
        if self.requested is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
            return
        # An error on the way out takes precedence, unless our own cancelling caused it.
        if error is None or self._interrupting:
            raise self.exception() from None

    # ---- on the main thread

    def _handle(self, number: int, frame: Any) -> None:
        self.requested = self.requested or signal.Signals(number)
        interrupts = self._phase == "start" or (self._interrupting and self._phase == "training")
        if interrupts and not self._raised:
            self._raised = True
            raise self.exception()

    # ---- on the thread that receives signals

    def _start_thread(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="towerpack-signals", daemon=True)
        self._thread.start()
        _watching.add(self)

    def _let_go_in_child(self) -> None:
        """Restores the state from before, in a process that was just forked from this one."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        assert self._reader is not None
        self._reader.close()
        self._writer.close()

    def _watch(self) -> None:
        assert self._reader is not None
        while True:
            try:
                received = self._reader.recv(1)
            except TimeoutError:
                self._interrupt()
                continue
            if not received:
                return
            self._forward(received)
            if received[0] in self._before:
                self._receive(signal.Signals(received[0]))

    def _forward(self, received: bytes) -> None:
        """Forwards a signal to its earlier receiver, such as the event loop of a notebook."""
        if self._old_wakeup != -1:
            with contextlib.suppress(OSError):
                os.write(self._old_wakeup, received)

    def _receive(self, number: signal.Signals) -> None:
        assert self._reader is not None
        if self._resent:
            self._resent = False
        elif self._first_at is None:
            self._first_at = time.monotonic()
            self.requested = self.requested or number
            self._reader.settimeout(self._grace_seconds)
        elif time.monotonic() - self._first_at < self._debounce_seconds:
            return
        elif hasattr(sys, "ps1"):
            self._interrupt()  # we must not end the process of an interactive session
        else:
            # At once, regardless of the main thread's state. Workers end with their parent.
            os._exit(128 + number)

    def _interrupt(self) -> None:
        """Interrupts the running step or evaluation repeatedly, until that has an effect."""
        assert self._reader is not None
        assert self.requested is not None
        if not self._interruptible or (self._interrupting and self._raised):
            self._reader.settimeout(None)
            return
        if not self._interrupting:
            _log.warning(
                "The work that was running when %s arrived has not ended within %g s. It is interrupted; "
                "progress after the last checkpoint is not saved.",
                self.requested.name,
                self._grace_seconds,
            )
            self._interrupting = True
            self._cancel()
        self._reader.settimeout(self._retry_seconds)
        with self._sending:
            if self._interruptible:
                self._resent = True
                # Ends a wait of the main thread in Python; `cancel` ends one in TensorFlow.
                signal.pthread_kill(threading.main_thread().ident or 0, self.requested)

    @property
    def _interruptible(self) -> bool:
        return self._phase in {"start", "training"}


@final
@attrs.frozen(eq=False)
class StopRequests:
    """Ends the loop after an error of a background thread, or after a signal.

    Attributes:
        coord: the coordinator to which threads report their errors.
        signals: receives signals.
        callbacks: the callbacks of the run; one of them may save.
        is_chief: whether this process saves.
    """

    coord: tf.train.Coordinator
    signals: StopSignals
    callbacks: Callbacks
    is_chief: bool

    def follow(self, amid_triggers: bool = False) -> None:
        """Raises the error of a failed thread; after a signal, saves and stops.

        Args:
            amid_triggers: whether more callbacks have to be triggered first; a signal then waits.

        Raises:
            KeyboardInterrupt, SystemExit: after Ctrl-C, or after SIGTERM.
            Exception: the error of a thread.
        """
        self.coord.raise_requested_exception()
        if self.signals.requested is None or amid_triggers:
            return
        with self.signals.saving():
            if not save_now(self.callbacks) and self.is_chief:
                _log.warning(
                    "Nothing is saved: there is no towerpack_callbacks.ModelSaver among the callbacks."
                )
        raise self.signals.exception()


@final
@attrs.frozen(eq=False)
class TrainingInputs:
    """The training input, and other data that may end: data of callbacks, and of the model itself.

    All of them end with `OutOfRangeError`. The origin follows from the callback that raised the error, or
    from the op that the error names.

    Attributes:
        source: the input; None for a graph with its own data.
        tensors: the input tensors of the training towers; empty if they are not known.
        callbacks: the callbacks of the run.
        train_op: the op of one step; None if steps may also run other ops.
        graph: the graph.
    """

    source: InputSource | None
    tensors: Sequence[tf.Tensor]
    callbacks: Callbacks
    train_op: tf.Operation | None
    graph: tf.Graph

    def stop_reason(self, caught: BaseException) -> str | None:
        """Returns the reason of a training's normal stop; None if the training failed."""
        if isinstance(caught, StopTraining):
            return str(caught)
        if self.source is None or self.source.infinite or not isinstance(caught, tf.errors.OutOfRangeError):
            return None
        ended = self.callback_of(caught) is None and self._other_op(caught) is None
        return "its input has ended" if ended else None

    def callback_of(self, caught: tf.errors.OutOfRangeError) -> Callback | None:
        """Returns the callback with exhausted data, its own or that of its fetches, or None."""
        raiser = self.callbacks.raiser_of(caught)
        if raiser is not None:
            return None if self._is_of_the_input(raiser) else raiser
        if self.train_op is None:
            return None
        op = ended_apart_from([self.train_op], caught, self.graph)
        return None if op is None else self.callbacks.fetcher_of(op)

    def describe_end(self, caught: tf.errors.OutOfRangeError) -> str:
        """Returns a description of the exhausted data, as the beginning of a sentence."""
        op = self._other_op(caught)
        if op is None:
            return "The training input ended"
        return f"The model's own data (op {op.name!r}), not the training input, ended"

    def _is_of_the_input(self, callback: Callback) -> bool:
        return (
            isinstance(callback, HookToCallback)
            and self.source is not None
            and callback.hook in self.source.hooks()
        )

    def _other_op(self, caught: tf.errors.OutOfRangeError) -> tf.Operation | None:
        """The exhausted op, unless it belongs to the training input."""
        return ended_apart_from(self.tensors, caught, self.graph) if self.tensors else None


@final
@attrs.frozen(eq=False)
class TrainingEnd:
    """Runs the loop and the work that follows it, also after an error.

    Attributes:
        callbacks: the callbacks of the run.
        loop: the counters.
        inputs: distinguishes the training input from other data that may end.
        coord: the coordinator to which threads report their errors.
        processes: the other processes.
    """

    callbacks: Callbacks
    loop: LoopState
    inputs: TrainingInputs
    coord: tf.train.Coordinator
    processes: ProcessStrategy

    def run(self, run_loop: Callable[[], None], sess: tf.Session, leaving: Callable[[], None]) -> None:
        """Runs the loop to its end, then every `_after_train`; only then raises the error of the loop.

        Before that, the last steps of a loop that stopped early without an error are saved, as after Ctrl-C.

        Args:
            run_loop: runs all steps.
            sess: the session of the steps.
            leaving: called when the loop is over, with or without an error.
        """
        failure: BaseException | None = None
        runs_before = self.loop.global_step
        try:
            try:
                self._announcing_stops(run_loop, sess)
            finally:
                leaving()
        except BaseException as caught:
            failure = caught
        # Outside of the handler: an error of the data must not be shown as caused by the ops it cancelled.
        error = None if failure is None else self._translate(failure)
        if failure is not None and error is None:
            error = self._save_last_steps(failure, runs_before)
        self.coord.request_stop()
        self._finish(error)

    def _save_last_steps(self, failure: BaseException, runs_before: int) -> BaseException | None:
        """Saves the steps that no checkpoint has yet; returns the error if that fails."""
        loop = self.loop
        if loop.global_step == runs_before:
            # Visible with any logging settings: a script that ends at once looks as if it had failed.
            if loop.starting_epoch > 1 or loop.starting_step:
                _log.warning("Nothing left to train after step %d: %s.", runs_before, loop.ended_by)
            return None
        if isinstance(failure, tf.errors.OpError):
            loop.local_step -= 1  # that step found no data, and is not done
            loop.data_ended = True
        try:
            save_now(self.callbacks)
        except BaseException as error:
            return self._failed_with(error)
        return None

    def _finish(self, error: BaseException | None) -> None:
        """Runs every `_after_train`, then raises the training's error, or else that of a callback."""
        try:
            self.callbacks.after_train()
        except BaseException as late:
            if error is None:
                # The session may be closed because another process was lost, which is the error to report.
                cause = self.processes.translate_error(late, self.coord)
                if cause is late:
                    raise
                raise cause from late
            if late is not error:  # the error of a thread, which the loop has already raised
                _log.exception("A callback failed in after_train, after the training had failed")
        finally:
            self.loop.ended_by = None  # its traceback would keep the failed objects alive
        if error is not None:
            raise error

    def _announcing_stops(self, run_loop: Callable[[], None], sess: tf.Session) -> None:
        runs_before = self.loop.global_step
        try:
            run_loop()
        except (StopTraining, tf.errors.OutOfRangeError) as caught:
            reason = self.inputs.stop_reason(caught)
            if reason is not None and _has_steps_left(self.loop, runs_before):
                self.processes.announce_stop(reason, self.loop, sess)
            raise

    def _translate(self, failure: BaseException) -> BaseException | None:
        failure = self.processes.translate_error(failure, self.coord)
        error = translate_error(failure, self.loop, self.inputs, self.coord)
        if error is not None:
            return self._failed_with(error)
        self.loop.ended_by = StopTraining(self.inputs.stop_reason(failure))
        return None

    def _failed_with(self, error: BaseException) -> BaseException:
        self.loop.ended_by = error
        # At once: the final work of callbacks may take long.
        self.processes.announce_failure(error)
        return error


def translate_error(
    caught: BaseException, loop: LoopState, inputs: TrainingInputs, coord: tf.train.Coordinator
) -> BaseException | None:
    """Returns the error to raise for the end of the loop; None if the loop ended without an error.

    If a background thread fails, the running step fails with another error; the thread's error is returned.

    Args:
        caught: the exception of the loop.
        loop: the counters.
        inputs: distinguishes the training input from other data.
        coord: the coordinator to which threads report their errors.
    """
    if isinstance(caught, tf.errors.OpError):
        cause = _failure_of_threads(coord)
        if cause is not None:
            return cause
    if isinstance(caught, StopTraining):
        _log.info("Training stops at step %d: %s", loop.global_step, caught)
        return None
    if _is_about_a_final_graph(caught):
        late = TrainerStateError(
            "An op was added to the graph after training had begun, when the graph is final. Make ops in "
            "_setup_graph of a callback, or in the model."
        )
        late.__cause__ = caught
        return late
    if not isinstance(caught, tf.errors.OutOfRangeError):
        return caught
    end: BaseException = caught
    callback = inputs.callback_of(caught)
    if callback is not None:
        caught.add_note(
            f"It was raised by the callback {callback} at step {loop.global_step}: the callback's own data "
            "ended, not the training input."
        )
        return end
    if inputs.stop_reason(caught) is not None:
        _log.info("The input, declared finite, ended at step %d.", loop.global_step)
        return None
    ended = EndOfInputError(
        f"{inputs.describe_end(caught)} at step {loop.global_step} (epoch {loop.epoch_num}), before the "
        "training did. Repeat the data, or declare it finite (infinite=False) if it may end training."
    )
    ended.__cause__ = caught
    return ended


def _is_about_a_final_graph(caught: BaseException) -> bool:
    """Returns whether TensorFlow has refused to add an op; another RuntimeError may contain the same word."""
    traceback = caught.__traceback__
    if type(caught) is not RuntimeError or traceback is None or "finalized" not in str(caught):
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code is tf.Graph._check_not_finalized.__code__


def _has_steps_left(loop: LoopState, runs_before: int) -> bool:
    """Returns whether the loop ended before the last step of the last epoch had run."""
    assert loop.max_epoch is not None
    steps = (loop.max_epoch + 1 - loop.starting_epoch) * loop.steps_per_epoch - loop.starting_step
    epochs_over = loop.epoch_num - loop.starting_epoch
    begun = epochs_over * loop.steps_per_epoch + loop.local_step + 1 - loop.starting_step
    # A trainer may make several runs in a step; in a step without any run, the last step is still to come.
    return steps > 0 and (begun < steps or loop.global_step - runs_before < steps)


def _failure_of_threads(coord: tf.train.Coordinator) -> BaseException | None:
    try:
        coord.raise_requested_exception()
    except BaseException as cause:
        return cause
    return None
