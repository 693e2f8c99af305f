# -*- coding: utf-8 -*-
"""A residual network on several GPUs."""
import os
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import (
    AvgPooling, BatchData, BatchNorm, BNReLU, Conv2D, DataFromList, FullyConnected, GlobalAvgPooling,
    argscope, logger)
from tensorpack.callbacks import *
from tensorpack.dataflow import PrefetchDataZMQ
from tensorpack.models import regularize_cost
from tensorpack.tfutils.summary import add_moving_summary, add_param_summary
from tensorpack.train import (
    ModelDesc, SyncMultiGPUTrainerReplicated, TrainConfig, launch_train_with_config)
from tensorpack.utils.gpu import get_nr_gpu

BATCH_SIZE = 60
NUM_UNITS = 1


class Model(ModelDesc):

    def __init__(self, n):
        super(Model, self).__init__()
        self.n = n

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, 'input'),
                tf.TensorSpec([None], tf.int32, 'label')]

    def build_graph(self, image, label):
        image = tf.expand_dims(image, 3)

        def residual(name, l, increase_dim=False, first=False):
            shape = l.get_shape().as_list()
            in_channel = shape[3]
            out_channel = in_channel * 2 if increase_dim else in_channel
            stride1 = 2 if increase_dim else 1

            with tf.variable_scope(name):
                b1 = l if first else BNReLU(l)
                c1 = Conv2D('conv1', b1, out_channel, stride=stride1, nl=BNReLU)
                c2 = Conv2D('conv2', c1, out_channel)
                if increase_dim:
                    l = AvgPooling('pool', l, 2)
                    l = tf.pad(l, [[0, 0], [0, 0], [0, 0], [in_channel // 2, in_channel // 2]])
                return c2 + l

        with argscope(Conv2D, use_bias=False, kernel_size=3,
                      kernel_initializer=tf.variance_scaling_initializer(scale=2.0, mode='fan_out')), \
                argscope([Conv2D, BatchNorm, GlobalAvgPooling], data_format='NHWC'):
            l = Conv2D('conv0', image, 16, nl=BNReLU)
            for k in range(self.n):
                l = residual('res1.{}'.format(k), l, first=k == 0)
            l = residual('res2.0', l, increase_dim=True)
            l = BNReLU('bnlast', l)
            l = GlobalAvgPooling('gap', l)

        logits = FullyConnected('linear', l, 10)
        tf.nn.softmax(logits, name='output')
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name='cross_entropy_loss')
        wrong = tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name='wrong_vector')
        add_moving_summary(tf.reduce_mean(wrong, name='train_error'))
        wd_cost = tf.multiply(2e-4, regularize_cost('.*/W', tf.nn.l2_loss), name='wd_cost')
        add_moving_summary(cost, wd_cost)
        add_param_summary(('.*/W', ['histogram']))   # monitor W
        return tf.add_n([cost, wd_cost], name='cost')

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=0.05, trainable=False)
        return tf.train.MomentumOptimizer(lr, 0.9)


def get_data(train_or_test):
    digits = load_digits()
    points = [[(x / 16.).astype('float32'), int(y)] for x, y in zip(digits.images, digits.target)]
    is_train = train_or_test == 'train'
    ds = DataFromList(points[:1500] if is_train else points[1500:], shuffle=is_train)
    ds = BatchData(ds, BATCH_SIZE, remainder=not is_train)
    if is_train:
        ds = PrefetchDataZMQ(ds, nr_proc=1)
    return ds


if __name__ == '__main__':
    num_gpu = max(get_nr_gpu(), 1)
    logger.set_logger_dir(os.path.join('train_log', 'digits-resnet'))
    logger.warn('training on {} device(s)'.format(num_gpu))

    config = TrainConfig(
        model=Model(n=NUM_UNITS),
        dataflow=get_data('train'),
        callbacks=[
            ModelSaver(max_to_keep=2, keep_checkpoint_every_n_hours=1),
            InferenceRunner(get_data('test'),
                            [ScalarStats('cost'), ClassificationError('wrong_vector')]),
            ScheduledHyperParamSetter('learning_rate', [(1, 0.05), (2, 0.01)])
        ],
        max_epoch=2,
    )
    trainer = SyncMultiGPUTrainerReplicated(num_gpu, mode='cpu')
    launch_train_with_config(config, trainer)
