"""The end of a training's loop, and the requests for it."""

import json
import logging
import signal
from contextlib import nullcontext

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Callbacks, LoopState, RunRecord, StopTraining
from towerpack_inputsource import QueueInput
from towerpack_trainers import EndOfInputError, SimpleTrainer, TrainerStateError
from towerpack_trainers.session import (
    SingleProcess,
    StopRequests,
    StopSignals,
    TrainingEnd,
    TrainingInputs,
    translate_error,
)


class Last(Callback):
    """Records its call at the end; may fail."""

    def __init__(self, error=None):
        self.calls, self.error = 0, error

    def _after_train(self):
        self.calls += 1
        if self.error is not None:
            raise self.error


def inputs(source=None, callbacks=()):
    return TrainingInputs(source, (), Callbacks(callbacks), None, tf.Graph())


def leave(failure=None, late=None, source=None, processes=None):
    """Ends a loop with or without an error; returns the records of its callbacks."""
    callbacks, coord, left = [Last(late), Last()], tf.train.Coordinator(), []
    loop = LoopState(steps_per_epoch=5, max_epoch=2, epoch_num=1, local_step=2, global_step=3)

    def run_loop():
        if failure is not None:
            raise failure

    try:
        TrainingEnd(Callbacks(callbacks), loop, inputs(source), coord, processes or SingleProcess()).run(
            run_loop, None, leaving=lambda: left.append([callback.calls for callback in callbacks])
        )
    finally:
        assert coord.should_stop()
        assert left == [[0, 0]]
        assert [callback.calls for callback in callbacks] == [1, 1]


def end_of_sequence():
    return tf.errors.OutOfRangeError(None, None, "End of sequence")


def test_normal_ends(caplog):
    caplog.set_level(logging.INFO)
    leave()
    leave(StopTraining("enough"))
    assert caplog.messages == ["Training stops at step 3: enough"]
    leave(end_of_sequence(), source=QueueInput([], infinite=False))


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_failure_is_raised_after_all_callbacks(failure):
    with pytest.raises(type(failure)) as caught:
        leave(failure)
    assert caught.value is failure


def test_the_trainings_error_takes_precedence_over_a_callbacks(caplog):
    with pytest.raises(OSError, match="late"):
        leave(late=OSError("late"))
    with pytest.raises(ValueError, match="first"):
        leave(ValueError("first"), late=OSError("late"))
    assert "A callback failed in after_train, after the training had failed" in caplog.text
    caplog.clear()
    both = OSError("the same")
    with pytest.raises(OSError, match="the same"):
        leave(both, late=both)
    assert not caplog.records


def failed(error):
    """A coordinator with an error reported by a thread."""
    coord = tf.train.Coordinator()
    try:
        raise error
    except Exception as raised:
        coord.request_stop(raised)
    return coord


def translate(caught, source=None, coord=None):
    loop = LoopState(steps_per_epoch=5, max_epoch=2, epoch_num=1, global_step=3)
    return translate_error(caught, loop, inputs(source), coord or tf.train.Coordinator())


def test_a_threads_error_takes_precedence_over_its_consequences():
    cause = ValueError("of the data")
    coord = failed(cause)
    assert translate(tf.errors.CancelledError(None, None, "woken"), coord=coord) is cause
    mine = ValueError("of the loop")
    assert translate(mine, coord=coord) is mine


def test_an_end_of_the_input_is_an_error_unless_it_was_declared():
    caught = end_of_sequence()
    ended = translate(caught)
    assert isinstance(ended, EndOfInputError)
    assert ended.__cause__ is caught
    assert "ended at step 3 (epoch 1)" in str(ended)


def raised_by(function):
    try:
        function()
    except Exception as error:
        return error
    return None


def add_an_op_too_late():
    with tf.Graph().as_default() as graph:
        graph.finalize()
        tf.constant(1)


def fail_with_the_same_words():
    raise RuntimeError("Graph is finalized and cannot be modified.")


def test_an_op_added_too_late_is_explained():
    caught = raised_by(add_an_op_too_late)
    late = translate(caught)
    assert isinstance(late, TrainerStateError)
    assert late.__cause__ is caught
    for other in (RuntimeError("mine"), RuntimeError("finalized"), raised_by(fail_with_the_same_words)):
        assert translate(other) is other


class LostError(Exception):
    """Reports a lost process, like the strategy of several processes."""


@pytest.mark.parametrize("moment", ["failure", "late"])
def test_the_reason_of_a_closed_session_is_checked_first(moment):
    processes = SingleProcess()
    processes.translate_error = lambda caught, coord: (
        LostError() if isinstance(caught, tf.errors.FailedPreconditionError) else caught
    )
    closed = tf.errors.FailedPreconditionError(None, None, "Session is closed.")
    with pytest.raises(LostError):
        leave(processes=processes, **{moment: closed})


@pytest.mark.parametrize("late", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_later_callbacks_run_after_any_error(late, caplog):
    with pytest.raises(type(late)) as caught:
        leave(late=late)
    assert caught.value is late
    with pytest.raises(ValueError, match="first"):
        leave(ValueError("first"), late=late)
    assert "A callback failed in after_train, after the training had failed" in caplog.text


def test_an_exit_of_the_process_takes_precedence_over_an_error():
    calls = []

    class Note(Callback):
        def _after_train(self):
            calls.append(self)

    callbacks = [Last(OSError("late")), Last(SystemExit(3)), Last(KeyboardInterrupt()), Note()]
    with pytest.raises(SystemExit):
        Callbacks(callbacks).after_train()
    assert calls == callbacks[-1:]


def follow(requested=None, amid_triggers=False, failure=None, callbacks=(), is_chief=True):
    coord = tf.train.Coordinator() if failure is None else failed(failure)
    signals = StopSignals(cancel=pytest.fail)
    signals.requested = requested
    StopRequests(coord, signals, Callbacks(callbacks), is_chief).follow(amid_triggers)


def test_without_a_request_the_loop_continues(caplog):
    follow()
    follow(signal.SIGTERM, amid_triggers=True)
    assert not caplog.records


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_ends_it(number, kind, caplog):
    with pytest.raises(kind):
        follow(number)
    assert caplog.messages == [
        "Nothing is saved: there is no towerpack_callbacks.ModelSaver among the callbacks."
    ]


def test_no_warning_for_a_process_that_does_not_save(caplog):
    with pytest.raises(SystemExit):
        follow(signal.SIGTERM, is_chief=False)
    assert not caplog.records


def test_a_threads_failure_is_raised_even_between_triggers():
    with pytest.raises(ValueError, match="mine"):
        follow(amid_triggers=True, failure=ValueError("mine"))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, None),
        (StopTraining("accuracy reached"), "accuracy reached"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("labels\nin two lines"), "ValueError: labels"),
    ],
)
def test_the_record_of_a_run_contains_its_end(configure, tmp_path, failure, reason):
    class Raise(Callback):
        def _trigger(self):
            if failure is not None:
                raise failure

    trainer = SimpleTrainer(configure(callbacks=[Raise()], monitors=[RunRecord()], max_epoch=1))
    stopped = failure is None or isinstance(failure, StopTraining)
    with nullcontext() if stopped else pytest.raises(type(failure)):
        trainer.train()
    end = json.loads((tmp_path / "run" / "run.jsonl").read_text().splitlines()[-1])
    assert (end["event"], end.get("reason", "").startswith(reason or "")) == ("end", True)
    assert ("in _trigger" in end.get("traceback", "")) is not stopped and ("reason" in end) is bool(reason)


def test_the_record_of_a_run_contains_the_end_of_its_input(configure, kit, tmp_path):
    source = QueueInput(kit.line_data(3), infinite=False)
    SimpleTrainer(
        configure(dataflow=None, data=source, steps_per_epoch=5, monitors=[RunRecord()], max_epoch=9)
    ).train()
    end = json.loads((tmp_path / "run" / "run.jsonl").read_text().splitlines()[-1])
    assert end["reason"] == "its input has ended" and "traceback" not in end
