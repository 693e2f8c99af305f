#!/usr/bin/env python
# A small network on handwritten digits, as scripts for MNIST were written.
import argparse
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import *
from tensorpack.tfutils import summary
from tensorpack.utils import logger

IMAGE_SIZE = 8


def get_data():
    digits = load_digits()
    images = (digits.images / 16.).astype('float32')
    labels = digits.target.astype('int32')
    train = DataFromList([list(x) for x in zip(images[:1500], labels[:1500])], shuffle=True)
    test = DataFromList([list(x) for x in zip(images[1500:], labels[1500:])], shuffle=False)
    return BatchData(train, 50), BatchData(test, 99, remainder=True)


class Model(ModelDesc):
    def inputs(self):
        return [tf.placeholder(tf.float32, (None, IMAGE_SIZE, IMAGE_SIZE), 'input'),
                tf.placeholder(tf.int32, (None,), 'label')]

    def build_graph(self, image, label):
        image = tf.expand_dims(image, 3) * 2 - 1   # center the pixels values at zero
        with argscope(Conv2D, kernel_shape=3, nl=tf.nn.relu, out_channel=16):
            logits = (LinearWrap(image)
                      .Conv2D('conv0')
                      .MaxPooling('pool0', 2)
                      .Conv2D('conv1')
                      .FullyConnected('fc0', 64, activation=tf.nn.relu)
                      .Dropout('dropout', rate=0.3)
                      .FullyConnected('fc1', 10, activation=tf.identity)())

        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name='cross_entropy_loss')
        correct = tf.cast(tf.nn.in_top_k(predictions=logits, targets=label, k=1), tf.float32, name='correct')
        accuracy = tf.reduce_mean(correct, name='accuracy')

        # monitor training error in a moving average
        train_error = tf.reduce_mean(1 - correct, name='train_error')
        summary.add_moving_summary(train_error, accuracy)
        wd_cost = tf.multiply(1e-5, regularize_cost('fc.*/W', tf.nn.l2_loss), name='regularize_loss')
        total_cost = tf.add_n([wd_cost, cost], name='total_cost')
        summary.add_moving_summary(cost, wd_cost, total_cost)
        return total_cost

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=3e-3, trainable=False)
        return tf.train.AdamOptimizer(lr)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--load', help='load model')
    parser.add_argument('--epochs', type=int, default=3)
    args = parser.parse_args()

    # automatically setup the directory train_log/convnet for logging
    logger.auto_set_dir()

    dataset_train, dataset_test = get_data()
    config = TrainConfig(
        model=Model(),
        dataflow=dataset_train,
        callbacks=[
            ModelSaver(),
            InferenceRunner(
                dataset_test,
                ScalarStats(['cross_entropy_loss', 'accuracy'])),
            MaxSaver('validation_accuracy'),
            ScheduledHyperParamSetter('learning_rate', [(1, 3e-3), (3, 1e-3)]),
        ],
        steps_per_epoch=len(dataset_train),
        max_epoch=args.epochs,
        session_init=get_model_loader(args.load) if args.load else None,
    )
    launch_train_with_config(config, SimpleTrainer())
