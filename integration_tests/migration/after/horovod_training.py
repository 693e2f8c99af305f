#!/usr/bin/env python
"""One network in several processes, by Horovod."""
from towerpack_trainers.distributed import resolve_cluster
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import logging
from towerpack_callbacks import ModelSaver
from towerpack_dataflow import BatchData, DataFromList
from towerpack_layers import BatchNorm, FullyConnected
from towerpack_trainers import DistributedTrainer, ModelDesc, TrainConfig

logger = logging.getLogger(__name__)


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 64), tf.float32, 'image'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        l = FullyConnected('fc0', image, 32, activation=None)
        l = BatchNorm('bn', l, sync_statistics=True)
        logits = FullyConnected('fc1', tf.nn.relu(l), 10)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        return tf.reduce_mean(loss, name='cost')

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1 * resolve_cluster().size)


def get_data(rank, size):
    digits = load_digits()
    count = len(digits.data) // size * size
    points = [[(x / 16.).astype('float32'), int(y)] for x, y in zip(digits.data[:count], digits.target)]
    return BatchData(DataFromList(points[rank::size]), 32)


if __name__ == '__main__':
    if resolve_cluster().rank == 0:
        pass
    logger.info("Rank={}, Size={}".format(resolve_cluster().rank, resolve_cluster().size))
    config = TrainConfig(
        model=Model(),
        dataflow=get_data(resolve_cluster().rank, resolve_cluster().size),
        callbacks=[ModelSaver()] if resolve_cluster().rank == 0 else [],
        max_epoch=2,
    )
    # TODO(towerpack): `HorovodTrainer` works in another way: docs/migrating-from-tensorpack.md#training-over-processes
    trainer = DistributedTrainer(config)
    trainer.train()
