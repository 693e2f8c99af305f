"""Names and handles of variables mean values, as in TensorFlow 1."""

from __future__ import annotations

import pytest

VARIABLES = """
import numpy as np
import towerpack_compat; towerpack_compat.install(report=False)
import tensorflow as tf
from tensorpack import *
from tensorpack.tfutils.common import get_op_or_tensor_by_name, get_tensors_by_names

def same(value, expected):
    assert isinstance(value, np.ndarray) and value.dtype == 'float32', value
    np.testing.assert_array_equal(value, np.array(expected, 'float32'))
"""


@pytest.mark.long
@pytest.mark.slow
def test_sessions_give_values_for_names_and_handles(python) -> None:
    printed = python(
        code=VARIABLES
        + """
w = tf.get_variable('w', initializer=[3., 4.])
with tf.variable_scope('a'), tf.name_scope('b'):
    v = tf.get_variable('v', initializer=[7.], collections=[tf.GraphKeys.LOCAL_VARIABLES])
out = tf.Variable([5.], collections=[], name='out')
graph, session = tf.get_default_graph(), tf.Session()
session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), out.initializer])
named = graph.get_tensor_by_name('w:0')
gradient, assigned = tf.gradients(w * w, named)[0], tf.assign(named, [8., 9.])
copy = tf.identity(w.op.outputs[0])
found = [get_op_or_tensor_by_name('w:0'), *get_tensors_by_names(['w'])]
for fetch in ('w:0', w.name, w.op.outputs[0], named, *found):
    same(session.run(fetch), [3, 4])
    same(session.make_callable([fetch])()[0], [3, 4])
first, inner = session.run(['a/v:0', {'out': 'out:0', 'op': 'w'}])
same(first, [7]), same(inner['out'], [5])
assert inner['op'] is None
with session.as_default():
    same(w.op.outputs[0].eval(), [3, 4]), same(named.eval(), [3, 4])
same(session.run(gradient), [6, 8]), same(session.run(assigned), [8, 9])
with tf.Graph().as_default():
    same(session.run('w:0'), [8, 9])
for key in (w, 'w:0', w.op.outputs[0], named, out):
    try:
        session.run(w * 2, {key: [1., 2.]})
    except NotImplementedError as error:
        assert 'variable.load(value, session)' in str(error)
    else:
        raise AssertionError(key)
try:
    session.run(copy)
except NotImplementedError as error:
    print(error)
"""
    )
    assert "address 'Identity:0' of an object, not a value. Fetch the variable." in printed


@pytest.mark.slow
def test_callbacks_and_predictors_give_values_for_names(python) -> None:
    printed = python(
        code=VARIABLES
        + """
class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, 'x')]

    def build_graph(self, x):
        w = tf.get_variable('w', initializer=tf.ones([2, 2]), trainable=False)
        b = tf.get_variable('b', initializer=[2., 3.])
        named = tf.get_default_graph().get_tensor_by_name('b:0')
        summary.add_moving_summary(tf.reduce_sum(named, name='total'))
        return tf.reduce_sum(tf.matmul(x, w) * b, name='cost') * 0.

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)

from tensorpack.tfutils import summary
seen = []
class Mine(Callback):
    def _setup_graph(self):
        self.found = self.get_tensors_maybe_in_tower(['b:0', 'b'])
        self.predict = self.trainer.get_predictor(['x'], ['b:0', 'w'])
    def _before_run(self, _):
        return ['b:0', *self.found]
    def _after_run(self, _, values):
        seen.extend(values.results)
    def _after_train(self):
        for value, expected in zip(self.predict(np.ones([1, 2])), ([2, 3], np.ones([2, 2]))):
            same(value, expected)
        seen.append(self.trainer.sess.run('b:0'))

logger.set_logger_dir('log', 'd')
config = TrainConfig(
    model=Model(), dataflow=DataFromList([[np.ones([1, 2], 'float32')]]), steps_per_epoch=2, max_epoch=1,
    callbacks=[Mine(), ModelSaver(), ProcessTensors(['b:0'], seen.append), DumpTensors(['b:0']),
               DumpParamAsImage('w')],
)
launch_train_with_config(config, SimpleTrainer())
assert len(seen) == 9, seen
for value in seen:
    same(value, [2, 3])
with np.load('log/DumpTensor-1.npz') as file:
    same(file['b:0'], [2, 3])
predict = OfflinePredictor(PredictConfig(
    model=Model(), session_init=SmartInit('log/checkpoint'), input_names=['x'], output_names=['b:0', 'w:0']))
for value, expected in zip(predict(np.ones([1, 2])), ([2, 3], np.ones([2, 2]))):
    same(value, expected)
print('done')
"""
    )
    assert printed.endswith("done\n")
