#!/usr/bin/env python
"""One network in several processes, by Horovod."""
import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import *


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 64), tf.float32, 'image'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        l = FullyConnected('fc0', image, 32, activation=None)
        l = BatchNorm('bn', l, sync_statistics='horovod')
        logits = FullyConnected('fc1', tf.nn.relu(l), 10)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(loss, name='cost')

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1 * hvd.size())


def get_data(rank, size):
    digits = load_digits()
    count = len(digits.data) // size * size
    points = [[(x / 16.).astype('float32'), int(y)] for x, y in zip(digits.data[:count], digits.target)]
    return BatchData(DataFromList(points[rank::size]), 32)


if __name__ == '__main__':
    hvd.init()
    if hvd.rank() == 0:
        logger.auto_set_dir()
    logger.info("Rank={}, Size={}".format(hvd.rank(), hvd.size()))
    config = TrainConfig(
        model=Model(),
        dataflow=get_data(hvd.rank(), hvd.size()),
        callbacks=[ModelSaver()] if hvd.rank() == 0 else [],
        max_epoch=2,
    )
    trainer = HorovodTrainer(average=True)
    launch_train_with_config(config, trainer)
