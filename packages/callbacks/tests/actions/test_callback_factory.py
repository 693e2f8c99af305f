"""A callback out of functions."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CallbackFactory, PeriodicTrigger, explain_callbacks


def test_functions_are_called_where_methods_would_be(line):
    calls = []

    def setup_graph(self):
        self.double = tf.multiply(self.trainer.get_tensors(["cost"])[0], 2)

    def trigger(self):
        calls.append((self.global_step, self.trainer.sess.run(self.double) < 2))

    factory = CallbackFactory(
        setup_graph=setup_graph,
        before_train=lambda self: calls.append("before"),
        trigger=trigger,
        after_train=lambda self: calls.append("after"),
    )
    line.run([PeriodicTrigger(factory, every_k_steps=4)])
    assert calls == ["before", (4, True), "after"]


def test_missing_functions_are_skipped(line):
    factory = CallbackFactory()
    line.run([factory])
    assert "triggered" not in explain_callbacks([factory])


def test_functions_can_be_called():
    with pytest.raises(TypeError, match=r"CallbackFactory\(trigger=3\): expected a function"):
        CallbackFactory(trigger=3)
