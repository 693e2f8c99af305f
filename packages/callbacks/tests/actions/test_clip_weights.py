"""Weights that are kept in a range."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, CallbackFactory, ClipWeights, ScopeError
from towerpack_callbacks.loop import PlainLoop


def make_critic(callback):
    with tf.name_scope(None), tf.variable_scope("discrim"):
        tf.get_variable("w", [4], initializer=tf.constant_initializer([-3.0, -0.01, 0.01, 3.0]))
        tf.get_variable("count", [], tf.int32, initializer=tf.constant_initializer(7))


class Look(Callback):
    """Keeps the values of the weights after each step."""

    def __init__(self, names):
        self._names, self.seen = names, []

    def _setup_graph(self):
        self._tensors = self.trainer.get_tensors(self._names)

    def _before_train(self):
        self._trigger_step()

    def _trigger_step(self):
        self.seen.append(self.trainer.sess.run(self._tensors))


def test_weights_of_the_scope_are_clipped_after_each_step_and_before_the_first():
    look = Look(["discrim/w", "weight", "discrim/count"])
    critic = CallbackFactory(setup_graph=make_critic)
    PlainLoop([critic, ClipWeights(0.1, scope="discrim"), look], 3, 2, None).train()
    for clipped, _, count in look.seen:
        np.testing.assert_array_equal(clipped, np.float32([-0.1, -0.01, 0.01, 0.1]))
        assert count == 7
    np.testing.assert_allclose([weight for _, weight, _ in look.seen], 1 - 0.8 ** np.arange(7), rtol=1e-5)


def test_without_a_scope_all_weights_are(line):
    look = Look(["weight"])
    line.run([ClipWeights(0.3), look])
    np.testing.assert_allclose(np.ravel(look.seen), [0, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3], rtol=1e-5)


def test_a_scope_without_weights(line):
    with pytest.raises(ScopeError, match=r"in the scope 'critic'.*: no scope \(1\)"):
        line.run([ClipWeights(0.01, scope="critic")])


@pytest.mark.parametrize("limit", [0, -0.1, float("nan"), float("inf"), "0.1", True])
def test_a_limit_is_a_number_above_0(limit):
    with pytest.raises(ValueError, match="expected a number above 0"):
        ClipWeights(limit)
