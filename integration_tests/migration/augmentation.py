"""Images that are changed by several processes on their way to a network."""
import cv2
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import tensorpack as tp
from tensorpack import imgaug
from tensorpack.dataflow import (AugmentImageComponent, BatchData, MapData,
                                 MultiProcessMapDataZMQ, PrefetchDataZMQ, RNGDataFlow, TestDataSpeed)
from tensorpack.dataflow.imgaug import ImageAugmentor

NUM_PROC = 1


class Digits(RNGDataFlow):
    """Handwritten digits, as images of 16 x 16 pixels."""

    def __init__(self, train_or_test, shuffle=True):
        digits = load_digits()
        part = slice(0, 1500) if train_or_test == 'train' else slice(1500, None)
        self.images, self.labels = digits.images[part], digits.target[part]
        self.shuffle = shuffle

    def size(self):
        return len(self.images)

    def get_data(self):
        order = np.arange(len(self.images))
        if self.shuffle:
            self.rng.shuffle(order)
        for k in order:
            image = cv2.resize((self.images[k] * 15).astype('uint8'), (16, 16))
            if self.shuffle and self.rng.rand() < 0.1:
                image = np.maximum(image, self.rng.randint(0, 20, size=image.shape)).astype('uint8')
            yield [image[:, :, None], int(self.labels[k])]


class Fade(ImageAugmentor):
    """Makes images darker."""

    def __init__(self, lowest):
        super(Fade, self).__init__()
        self._init(locals())

    def _get_augment_params(self, img):
        return self._rand_range(self.lowest, 1.0)

    def _augment(self, img, factor):
        return (img * factor).astype('float32')


def get_data(train_or_test):
    is_train = train_or_test == 'train'
    ds = Digits(train_or_test, shuffle=is_train)
    if is_train:
        augmentors = [
            imgaug.RandomCrop(14),
            imgaug.Resize(16),
            imgaug.RandomApplyAug(imgaug.GaussianBlur(max_size=3), 0.2),
            Fade(0.7),
        ]
        ds = AugmentImageComponent(ds, augmentors)
        ds = MultiProcessMapDataZMQ(
            ds, NUM_PROC,
            lambda dp: [np.reshape(dp[0], (16, 16)).astype('float32') / 255., dp[1]],
            buffer_size=100, strict=True)
    else:
        ds = MapData(ds, lambda dp: [dp[0][:, :, 0].astype('float32') / 255., dp[1]])
    ds = BatchData(ds, 50, remainder=not is_train)
    return ds


class Model(tp.ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 16, 16), tf.float32, 'image'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        l = tp.Conv2D('conv0', tf.expand_dims(image, -1), 12, 3, activation=tf.nn.relu)
        l = tp.MaxPooling('pool0', l, 4)
        logits = tp.FullyConnected('fc', l, 10)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(loss, name='cost')
        tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32), name='accuracy')
        tp.tfutils.summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(5e-3)


if __name__ == '__main__':
    tp.logger.auto_set_dir()
    ds = get_data('train')
    TestDataSpeed(ds, size=20).start()
    config = tp.TrainConfig(
        model=Model(),
        data=tp.QueueInput(ds),
        callbacks=[
            tp.ModelSaver(),
            tp.InferenceRunner(tp.QueueInput(get_data('test')), [tp.ScalarStats('accuracy')]),
        ],
        steps_per_epoch=30,
        max_epoch=3,
    )
    tp.launch_train_with_config(config, tp.SimpleTrainer())
