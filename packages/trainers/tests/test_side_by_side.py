"""Several trainings in one process, with eager code and in threads, do not interfere."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.testing import FinalVariables


def end_of(kit, configure, **changes):
    kept = FinalVariables()
    config = configure(
        model=kit.Random(), dataflow=kit.net_flow(), callbacks=[kept], extra_callbacks=None, **changes
    )
    trainer = SimpleTrainer(config)
    return trainer, kept


def test_one_after_the_other_and_interleaved(kit, configure, tmp_path):
    (first, one), (second, two) = end_of(kit, configure, log_dir=None), end_of(kit, configure, log_dir=None)
    second.train()
    first.train()
    np.testing.assert_array_equal(one.values["fc0/W"], two.values["fc0/W"])


def test_one_within_the_other(kit, configure):
    class Inner(Callback):
        def _trigger(self):
            self.trainer_inside, self.kept = end_of(kit, configure, log_dir=None)
            self.trainer_inside.train()

    inner = Inner()
    SimpleTrainer(configure(callbacks=[inner, outer := FinalVariables()])).train()
    trainer, alone = end_of(kit, configure, log_dir=None)
    trainer.train()
    np.testing.assert_array_equal(inner.kept.values["fc0/W"], alone.values["fc0/W"])
    SimpleTrainer(configure(callbacks=[plain := FinalVariables()])).train()
    assert outer.values["slope"] == plain.values["slope"]


def test_in_threads_at_once(kit, configure):
    results, errors = {}, []

    def train(name):
        try:
            trainer, kept = end_of(kit, configure, log_dir=None, max_epoch=20)
            trainer.train()
            results[name] = kept.values["fc0/W"]
        except BaseException as error:  # seen by the test, not by the thread
            errors.append(error)

    threads = [threading.Thread(target=train, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_eager_code_before_and_after(configure):
    layer = tf.keras.layers.Dense(1, kernel_initializer="ones")
    before = layer(tf.ones([1, 2])).numpy()
    SimpleTrainer(configure()).train()
    assert layer(tf.ones([1, 2])).numpy() == before
    assert tf.executing_eagerly()


def test_inside_a_graph_of_the_user(configure):
    with tf.Graph().as_default() as mine:
        trainer = SimpleTrainer(configure())
        trainer.train()
        assert mine.get_operations() == []
        assert tf.get_default_graph() is mine
