"""A generator of digits, with a custom trainer."""
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from tensorpack import *
from tensorpack.tfutils.summary import add_moving_summary
from tensorpack.tfutils.scope_utils import auto_reuse_variable_scope

BATCH = 64
Z_DIM = 16


class GANTrainer(TowerTrainer):
    def __init__(self, input, model):
        super(GANTrainer, self).__init__()
        inputs_desc = model.get_input_signature()
        cbs = input.setup(inputs_desc)
        with TowerContext('', is_training=True):
            model.build_graph(*input.get_input_tensors())
        opt = model.get_optimizer()
        with tf.name_scope('optimize'):
            d_min = opt.minimize(model.d_loss, var_list=model.d_vars, name='d_min')
            with tf.control_dependencies([d_min]):
                g_min = opt.minimize(model.g_loss, var_list=model.g_vars, name='g_min')
        self.train_op = g_min
        self.register_callback(cbs)


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 64), tf.float32, 'input')]

    def generator(self, z):
        l = FullyConnected('fc0', z, 64, activation=tf.nn.relu)
        return FullyConnected('fc1', l, 64, activation=tf.nn.sigmoid)

    @auto_reuse_variable_scope
    def discriminator(self, imgs):
        l = FullyConnected('fc0', imgs, 64, activation=tf.nn.leaky_relu)
        return FullyConnected('fc1', l, 1)

    def build_graph(self, image_pos):
        z = tf.random_uniform([BATCH, Z_DIM], -1, 1, name='z_train')
        with argscope([FullyConnected], kernel_initializer=tf.truncated_normal_initializer(stddev=0.05)):
            with tf.variable_scope('gen'):
                image_gen = self.generator(z)
            with tf.variable_scope('discrim'):
                vecpos = self.discriminator(image_pos)
                vecneg = self.discriminator(image_gen)
        xent = tf.nn.sigmoid_cross_entropy_with_logits
        pos = tf.reduce_mean(xent(logits=vecpos, labels=tf.ones_like(vecpos)))
        neg = tf.reduce_mean(xent(logits=vecneg, labels=tf.zeros_like(vecneg)))
        self.d_loss = tf.add(pos, neg, name='d_loss')
        self.g_loss = tf.reduce_mean(xent(logits=vecneg, labels=tf.ones_like(vecneg)), name='g_loss')
        add_moving_summary(self.d_loss, self.g_loss)
        self.g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, 'gen/')
        self.d_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, 'discrim/')

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3, beta1=0.5)


def get_data():
    images = (load_digits().data / 16.).astype('float32')
    ds = DataFromList([[x] for x in images], shuffle=True)
    return BatchData(ds, BATCH)


if __name__ == '__main__':
    logger.auto_set_dir()
    GANTrainer(QueueInput(get_data()), Model()).train_with_defaults(
        callbacks=[ModelSaver()],
        steps_per_epoch=28,
        max_epoch=2,
        session_init=None,
    )
