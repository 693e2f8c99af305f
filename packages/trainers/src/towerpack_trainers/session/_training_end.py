"""The end of a training: its real cause, and the work before its error is raised."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, HookToCallback, LoopState, StopTraining
from towerpack_callbacks.checkpoint import save_now
from towerpack_inputsource import InputSource

from .._errors import EndOfInputError, TrainerStateError
from ..towers._ended_data import ended_apart_from
from ._process_strategy import ProcessStrategy

__all__ = ["TrainingEnd", "TrainingInputs", "translate_error"]

_log = logging.getLogger("towerpack_trainers")


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
