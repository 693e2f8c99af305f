"""A step that takes too long ends the training."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, HookToCallback, SessionRunTimeout, as_session_hooks


def test_a_step_that_waits_for_ever(line):
    with line.graph.as_default():
        line.train_op = tf.queue.FIFOQueue(1, [tf.float32], [[]]).dequeue()
    with pytest.raises(tf.errors.DeadlineExceededError):
        line.run([SessionRunTimeout(50)])


def test_quick_steps_are_not_affected(line):
    given = []

    class Look(Callback):
        def _after_run(self, context, run_values):
            given.append(run_values.options.timeout_in_ms)

    assert line.run([SessionRunTimeout(60_000), Look()]) == 6
    assert given == [60_000] * 6


@pytest.mark.parametrize("wrong", [0, -1, 0.5, None])
def test_milliseconds(wrong):
    with pytest.raises(ValueError, match=r"timeout_in_ms=.*whole number of at least 1"):
        SessionRunTimeout(wrong)


def test_options_of_several_hooks_are_merged(line):
    seen = []

    class Trace(tf.train.SessionRunHook):
        def before_run(self, context):
            return tf.train.SessionRunArgs([], options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))

        def after_run(self, context, run_values):
            seen.append((run_values.options.timeout_in_ms, len(run_values.run_metadata.step_stats.dev_stats)))

    with line.graph.as_default():
        hooks = as_session_hooks(
            [SessionRunTimeout(60_000), HookToCallback(Trace())], steps_per_epoch=2, max_epoch=1
        )
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(line.train_op)
    assert [timeout for timeout, _ in seen] == [60_000, 60_000]
    assert all(devices > 0 for _, devices in seen)
