"""A network that is trained, predicts single digits, and is exported."""
import os
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorpack import *
from tensorpack.predict import OfflinePredictor, PredictConfig, SimpleDatasetPredictor
from tensorpack.tfutils.export import ModelExporter
from tensorpack.tfutils.sessinit import SaverRestore, get_model_loader
from tensorpack.tfutils.varmanip import load_chkpt_vars

LOG_DIR = 'train_log/inference'


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 64), tf.float32, 'input'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        logits = FullyConnected('fc', image, 10)
        tf.nn.softmax(logits, name='prob')
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(loss, name='cost')

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-2)


def get_data():
    digits = load_digits()
    points = [[(x / 16.).astype('float32'), int(y)] for x, y in zip(digits.data, digits.target)]
    return BatchData(DataFromList(points, shuffle=False), 64, remainder=True)


def train():
    logger.set_logger_dir(LOG_DIR)
    config = TrainConfig(
        model=Model(), dataflow=get_data(), callbacks=[ModelSaver(max_to_keep=1)], max_epoch=4)
    launch_train_with_config(config, SimpleTrainer())


def predict(model_path):
    pred_config = PredictConfig(
        session_init=get_model_loader(model_path),
        model=Model(),
        input_names=['input', 'label'],
        output_names=['prob', 'cost'])
    right, count = 0, 0
    predictor = SimpleDatasetPredictor(pred_config, dataset=get_data())
    for prob, cost in predictor.get_result():
        right += np.sum(np.argmax(prob, 1) >= 0)
        count += len(prob)
    logger.info('{} of {}'.format(right, count))

    pred = OfflinePredictor(PredictConfig(
        model=Model(), session_init=SaverRestore(model_path=model_path, ignore=['global_step']),
        input_names=['input'], output_names=['prob']))
    digits = load_digits()
    prob = pred((digits.data / 16.).astype('float32'))[0]
    return np.mean(np.argmax(prob, 1) == digits.target)


def export(model_path):
    config = PredictConfig(
        session_init=get_model_loader(model_path), model=Model(),
        input_names=['input'], output_names=['prob'])
    ModelExporter(config).export_compact('train_log/compact_graph.pb')
    ModelExporter(config).export_serving('train_log/exported')
    assert 'fc/W' in load_chkpt_vars(model_path)


if __name__ == '__main__':
    train()
    model_path = os.path.join(LOG_DIR, 'checkpoint')
    accuracy = predict(model_path)
    logger.info('accuracy %s', accuracy)
    assert accuracy > 0.8
    export(model_path)
