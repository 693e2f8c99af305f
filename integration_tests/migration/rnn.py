"""A recurrent network that predicts the next row of digits, in the style of language models."""
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorpack import *
from tensorpack.tfutils import optimizer, summary
from tensorpack.tfutils.gradproc import GlobalNormClip

BATCH = 50
SEQ_LEN = 7
HIDDEN_SIZE = 32
NUM_LAYER = 2


def get_data(part):
    images = (load_digits().images / 16.).astype('float32')[part]
    data = [[x[:-1], x[1:]] for x in images]
    return BatchData(DataFromList(data, shuffle=True), BATCH)


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, SEQ_LEN, 8), tf.float32, 'input'),
                tf.TensorSpec((None, SEQ_LEN, 8), tf.float32, 'nextinput')]

    def build_graph(self, input, nextinput):
        initializer = tf.random_uniform_initializer(-0.1, 0.1)

        def get_basic_cell():
            return tf.contrib.rnn.BasicLSTMCell(num_units=HIDDEN_SIZE, forget_bias=0.0, reuse=tf.get_variable_scope().reuse)

        cell = tf.nn.rnn_cell.MultiRNNCell([get_basic_cell() for _ in range(NUM_LAYER)])
        with tf.variable_scope('RNN', initializer=initializer):
            outputs, last_state = tf.nn.dynamic_rnn(cell, input, dtype=tf.float32)

        output = tf.reshape(outputs, [-1, HIDDEN_SIZE])
        prediction = FullyConnected('fc', output, 8, activation=tf.identity, W_init=initializer)
        xent_loss = tf.square(prediction - tf.reshape(nextinput, [-1, 8]))
        cost = tf.reduce_mean(xent_loss, name='cost')
        summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        lr = tf.get_variable('learning_rate', initializer=0.01, trainable=False)
        opt = tf.train.AdamOptimizer(lr)
        return optimizer.apply_grad_processors(opt, [GlobalNormClip(5)])


def get_config():
    train_data, val_data = get_data(slice(0, 1500)), get_data(slice(1500, 1750))
    M = Model()
    return TrainConfig(
        model=M,
        data=QueueInput(train_data),
        callbacks=[
            ModelSaver(),
            HyperParamSetterWithFunc('learning_rate', lambda e, x: x * 0.80 if e > 2 else x),
            InferenceRunner(val_data, [ScalarStats(['cost'])]),
        ],
        max_epoch=2,
    )


if __name__ == '__main__':
    logger.auto_set_dir()
    config = get_config()
    launch_train_with_config(config, SimpleTrainer())
