"""Predictors of Tensorpack, and Keras models in its trainings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.slow
def test_each_predictor_takes_a_configuration(python) -> None:
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
import numpy as np
import tensorflow as tf
from tensorpack import *


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, 'x')]

    def build_graph(self, x):
        tf.multiply(x, tf.get_variable('w', [2]), name='scaled')


config = lambda: PredictConfig(
    model=Model(), session_init=SmartInit({'w': np.array([1., 10.], 'float32')}), output_names=['scaled'])
flow = DataFromList([[np.full((1, 2), k, 'float32')] for k in range(5)], shuffle=False)
# Processes are copies of this one, which has no session yet.
for ordered in (True, False):
    found = MultiProcessDatasetPredictor(config(), flow, 2, use_gpu=False, ordered=ordered).get_all_result()
    numbers = [outputs[0][0, 1] for outputs in found]
    print('processes', (numbers if ordered else sorted(numbers)) == [0, 10, 20, 30, 40])
print('simple', [outputs[0][0, 1] for outputs in SimpleDatasetPredictor(config(), flow).get_all_result()][3])
towers = MultiTowerOfflinePredictor(config(), [0, 1])
print('towers', [predict(np.ones((1, 2)))[0].tolist() for predict in towers.get_predictor(3)][2])
both = DataParallelOfflinePredictor(config(), [0, 1])
print('parallel', [output.tolist() for output in both(np.ones((1, 2)), np.zeros((1, 2)))])
feedfree = FeedfreePredictor(config(), QueueInput(flow))
print('feedfree', [feedfree()[0][0, 1] for _ in range(2)] == [0, 10])
threads = MultiThreadAsyncPredictor([OfflinePredictor(config())], batch_size=3)
threads.start()
done = []
futures = [threads.put_task([np.full(2, k)], lambda future: done.append(future.result())) for k in range(4)]
print('threads', [future.result()[0].tolist() for future in futures][3])
"""
    printed = python(code=code)
    assert printed.count("processes True") == 2, printed
    assert "simple 30.0" in printed
    assert "towers [[1.0, 10.0]]" in printed
    assert "parallel [[[1.0, 10.0]], [[0.0, 0.0]]]" in printed
    assert "feedfree True" in printed
    assert "threads [3.0, 30.0]" in printed


@pytest.mark.long
@pytest.mark.slow
def test_a_keras_model_trains_and_its_dropout_drops_in_training_alone(python, tmp_path: Path) -> None:
    pytest.importorskip("tf_keras")
    (tmp_path / "train.py").write_text("""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorpack import *
from tensorpack.contrib.keras import KerasModel

logger.set_logger_dir('log')


def model(x):
    return keras.Sequential([
        keras.layers.InputLayer(input_tensor=x),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(1, use_bias=False, kernel_initializer='ones',
                           kernel_regularizer=keras.regularizers.l2(1e-5)),
        keras.layers.BatchNormalization(momentum=1.0, epsilon=0.0),
    ])


flow = BatchData(DataFromList([[np.ones(64), [64.]]] * 8, shuffle=False), 4)
trained = KerasModel(
    model,
    input_signature=[tf.TensorSpec([None, 64], tf.float32, 'x')],
    target_signature=[tf.TensorSpec([None, 1], tf.float32, 'y')],
    input=QueueInput(flow),
)
trained.compile(tf.train.GradientDescentOptimizer(0.), 'mean_squared_error', 'mean_absolute_error')
trained.fit(validation_data=flow, steps_per_epoch=2, max_epoch=1)
print('updates', len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)))
""")
    assert "updates 2" in python("-m", "towerpack_compat", "run", "train.py")
    last = json.loads((tmp_path / "log" / "stats.json").read_text())[-1]
    assert last["validation_mean_squared_error"] == last["validation_mean_absolute_error"] == 0
    assert last["mean_squared_error"] > 0


@pytest.mark.long
@pytest.mark.slow
def test_a_model_is_exported_with_the_names_of_its_graph(python) -> None:
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
import numpy as np
import tensorflow as tf
from tensorpack import *
from tensorpack.tfutils.export import ModelExporter


def build(x, unused):
    tf.multiply(x, tf.get_variable('w', [2]), name='scaled')


specs = [tf.TensorSpec([None, 2], tf.float32, 'x'), tf.TensorSpec([], tf.float32, 'unused')]
config = PredictConfig(
    tower_func=build, input_signature=specs, input_names=['x'], output_names=['scaled'],
    session_init=SmartInit({'w': np.array([1., 10.], 'float32')}))
for number in range(2):  # over the file of before
    ModelExporter(config).export_compact('model.pb', optimize=bool(number))
ModelExporter(config).export_serving('served', signature_name='one')
graph = tf.GraphDef.FromString(open('model.pb', 'rb').read())
with tf.Graph().as_default(), tf.Session() as sess:
    outputs = tf.import_graph_def(graph, return_elements=['scaled:0'], name='')
    print('compact', sess.run(outputs, {'x:0': [[2., 3.]]})[0].tolist(), len(graph.node))
with tf.Graph().as_default(), tf.Session() as sess:
    signature = tf.saved_model.load(sess, ['serve'], 'served').signature_def['one']
    print('serving', dict(signature.outputs).keys(), sess.run('scaled:0', {'x:0': [[2., 3.]]}).tolist())
empty = PredictConfig(tower_func=build, input_signature=specs, input_names=['x'], output_names=['scaled'])
try:
    ModelExporter(empty).export_compact('empty.pb')
except tf.errors.FailedPreconditionError:
    print('without weights: refused')
"""
    printed = python(code=code)
    assert "compact [[2.0, 30.0]] 3" in printed
    assert "serving dict_keys(['scaled:0']) [[2.0, 30.0]]" in printed
    assert "without weights: refused" in printed
