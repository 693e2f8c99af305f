"""Custom callbacks, and a custom inferencer."""
import operator
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorpack.callbacks import Callback, Inferencer, InferenceRunner, ModelSaver, PeriodicTrigger, StatMonitorParamSetter
from tensorpack.dataflow import BatchData, DataFromList, PrintData
from tensorpack.models import FullyConnected, Dropout
from tensorpack.tfutils import get_current_tower_context
from tensorpack.train import ModelDesc, SimpleTrainer, StopTraining, TrainConfig, launch_train_with_config
from tensorpack.utils import logger

__all__ = ['Model', 'ConfusionMatrix', 'StopTraining']


class ConfusionMatrix(Inferencer):
    """Counts which digit is taken for which."""

    def _before_inference(self):
        self.matrix = np.zeros((10, 10), int)

    def _get_fetches(self):
        return ['label', 'predicted']

    def _on_fetches(self, results):
        for label, predicted in zip(*results):
            self.matrix[label, predicted] += 1

    def _after_inference(self):
        return {'confusion_accuracy': np.trace(self.matrix) / float(self.matrix.sum())}


class WatchBias(Callback):
    """Records the bias of the last layer, and predicts a digit."""

    _chief_only = False

    def _setup_graph(self):
        self.bias, = self.get_tensors_maybe_in_tower(['fc/b'])
        self.predictor = self.trainer.get_predictor(['image'], ['predicted'])

    def _before_train(self):
        logger.info("Watching the bias ...")

    def _before_run(self, _):
        if self.local_step == 0:
            return tf.train.SessionRunArgs(fetches=self.bias)

    def _after_run(self, _, run_values):
        if run_values.results is not None:
            self.trainer.monitors.put_scalar('bias_norm', float(np.linalg.norm(run_values.results)))

    def _trigger(self):
        image = (load_digits().data[:1] / 16.).astype('float32')
        logger.warn("The first digit is taken for %s", self.predictor(image)[0])


class StopAt(Callback):
    def __init__(self, stat, value):
        self.stat, self.value = stat, value

    def _trigger_epoch(self):
        if self.trainer.monitors.get_latest(self.stat) > self.value:
            logger.info("Good enough.")
            raise StopTraining()


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 64), tf.float32, 'image'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        is_training = get_current_tower_context().is_training
        l = Dropout(image, keep_prob=0.9) if is_training else image
        logits = FullyConnected('fc', l, out_dim=10, nl=tf.identity)
        tf.argmax(logits, 1, name='predicted')
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(loss, name='cost')

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=0.01, trainable=False)
        return tf.train.AdamOptimizer(lr)


if __name__ == '__main__':
    logger.auto_set_dir()
    digits = load_digits()
    points = [[(x / 16.).astype('float32'), int(y)] for x, y in zip(digits.data, digits.target)]
    config = TrainConfig(
        model=Model(),
        dataflow=PrintData(BatchData(DataFromList(points), 64)),
        callbacks=[
            ModelSaver(),
            InferenceRunner(BatchData(DataFromList(points, shuffle=False), 99, remainder=True), ConfusionMatrix()),
            PeriodicTrigger(WatchBias(), every_k_epochs=1),
            StatMonitorParamSetter('learning_rate', 'confusion_accuracy', lambda x: x * 0.5, 0, 3),
            StopAt('confusion_accuracy', 0.9),
        ],
        max_epoch=6,
    )
    launch_train_with_config(config, SimpleTrainer())
