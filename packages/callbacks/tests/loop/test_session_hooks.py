"""Callbacks in a monitored session always end their work, for any end of the session."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CallbackFailedError, HookToCallback, StopTraining, as_session_hooks


class WithThread(Callback):
    """Has a thread from the first moment to the last, and needs the session in that."""

    def __init__(self):
        self.ends = 0

    def _before_train(self):
        self.go_on = threading.Event()
        self.thread = threading.Thread(target=self.go_on.wait)
        self.thread.start()

    def _after_train(self):
        self.ends += 1
        self.cost = self.trainer.sess.run("cost:0")
        self.go_on.set()
        self.thread.join()


class FailAt(Callback):
    """Raises an error in a method."""

    def __init__(self, method, error):
        def fail(*_):
            raise error

        setattr(self, method, fail)


class MyError(Exception):
    """An error that no other code raises."""


def train(line, callbacks, fail=None):
    """Some steps; what `fail` raises, it raises in the user's own loop."""
    threads = set(threading.enumerate())
    try:
        with line.graph.as_default():
            hooks = as_session_hooks(callbacks, steps_per_epoch=3, max_epoch=2)
            with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
                while not sess.should_stop():
                    sess.run(line.train_op)
                    if fail is not None:
                        fail(sess)
    finally:
        assert not set(threading.enumerate()) - threads


METHODS = ["_before_train", "_before_epoch", "_before_run", "_after_run", "_trigger_step", "_trigger_epoch"]


@pytest.mark.parametrize("error", [MyError("mine"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("method", METHODS)
def test_after_an_error_of_a_callback_all_of_them_end(line, method, error):
    first, last = WithThread(), WithThread()
    callbacks = [first, FailAt(method, error), last]
    if method == "_before_train":
        callbacks = [first, last, callbacks[1]]
    with pytest.raises(type(error)) as caught:
        train(line, callbacks)
    assert caught.value is error
    assert (first.ends, last.ends) == (1, 1)


def test_after_an_error_in_the_graph_or_in_the_loop_they_end_too(line):
    def fail(sess):
        raise MyError("mine")

    def run_what_fails(sess):
        sess.run("broken:0")

    with line.graph.as_default():
        tf.check_numerics(tf.constant(1.0) / 0.0, "it broke", name="broken")
    for function, kind in ((fail, MyError), (run_what_fails, tf.errors.InvalidArgumentError)):
        callback = WithThread()
        with pytest.raises(kind):
            train(line, [callback], function)
        assert callback.ends == 1


def test_a_good_end_is_one_end(line):
    callback, stops = WithThread(), FailAt("_trigger_epoch", StopTraining("enough"))
    train(line, [callback])
    train(line, [callback, stops])
    assert callback.ends == 2 and callback.cost < 1


def test_an_error_at_the_end_does_not_hide_the_first(line, caplog):
    with pytest.raises(MyError, match="first"):
        train(line, [FailAt("_trigger_step", MyError("first")), FailAt("_after_train", MyError("second"))])
    assert "A callback failed in after_train, after the training had failed" in caplog.text


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "error",
    [
        tf.errors.OutOfRangeError(None, None, "mine"),
        tf.errors.UnavailableError(None, None, "mine"),
        tf.errors.AbortedError(None, None, "mine"),
        StopIteration("mine"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.timeout(180)
def test_errors_that_a_session_would_misinterpret(line, method, error):
    with pytest.raises(CallbackFailedError, match=r"The callback FailAt raised .*mine") as caught:
        train(line, [FailAt(method, error)])
    assert caught.value.__cause__ is error


def test_errors_of_hooks_are_unchanged(line):
    class Ends(tf.train.SessionRunHook):
        def before_run(self, run_context):
            raise tf.errors.OutOfRangeError(None, None, "the data has ended")

    callback = WithThread()
    train(line, [callback, HookToCallback(Ends())])
    assert callback.ends == 1
