"""Images that are changed by several processes on their way to a network."""
import cv2
import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

from towerpack_callbacks import InferenceRunner, ModelSaver, ScalarStats, add_moving_summary
from towerpack_dataflow import (
    AugmentImageComponent,
    BatchData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    RNGDataFlow,
    TestDataSpeed,
    augment as imgaug,
)
from towerpack_dataflow.augment import ImageAugmentor
from towerpack_inputsource import QueueInput
from towerpack_layers import Conv2D, FullyConnected, MaxPooling
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

NUM_PROC = 1


class Digits(RNGDataFlow):
    """Handwritten digits, as images of 16 x 16 pixels."""

    def __init__(self, train_or_test, shuffle=True):
        digits = load_digits()
        part = slice(0, 1500) if train_or_test == 'train' else slice(1500, None)
        self.images, self.labels = digits.images[part], digits.target[part]
        self.shuffle = shuffle

    def __len__(self):
        return len(self.images)

    def __iter__(self):
        order = np.arange(len(self.images))
        if self.shuffle:
            self.rng.shuffle(order)
        for k in order:
            image = cv2.resize((self.images[k] * 15).astype('uint8'), (16, 16))
            if self.shuffle and self.rng.random() < 0.1:
                image = np.maximum(image, self.rng.integers(0, 20, size=image.shape)).astype('uint8')
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
            imgaug.RandomApplyAug(imgaug.GaussianBlur(), 0.2),
            Fade(0.7),
        ]
        ds = AugmentImageComponent(ds, augmentors)
        ds = MultiProcessMapData(
            ds, NUM_PROC,
            lambda dp: [np.reshape(dp[0], (16, 16)).astype('float32') / 255., dp[1]])
    else:
        ds = MapData(ds, lambda dp: [dp[0][:, :, 0].astype('float32') / 255., dp[1]])
    ds = BatchData(ds, 50, remainder=not is_train)
    return ds


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec((None, 16, 16), tf.float32, 'image'), tf.TensorSpec((None,), tf.int32, 'label')]

    def build_graph(self, image, label):
        l = Conv2D('conv0', tf.expand_dims(image, -1), 12, 3, activation=tf.nn.relu)
        l = MaxPooling('pool0', l, 4)
        logits = FullyConnected('fc', l, 10)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(loss, name='cost')
        tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32), name='accuracy')
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(5e-3)


if __name__ == '__main__':
    ds = get_data('train')
    TestDataSpeed(ds, size=20).start()
    config = TrainConfig(
        model=Model(),
        data=QueueInput(ds),
        callbacks=[
            ModelSaver(),
            InferenceRunner(QueueInput(get_data('test'), infinite=False), [ScalarStats('accuracy')]),
        ],
        steps_per_epoch=30,
        max_epoch=3,
    )
    SimpleTrainer(config).train()
