"""Generators that are global to the process, seeded."""

import random
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Seed


class Draw(Callback):
    """Draws from all global generators."""

    def _setup_graph(self):
        self._random = tf.random.uniform([])

    def _before_train(self):
        graph = float(self.trainer.sess.run(self._random))
        self.drawn = [random.random(), float(np.random.random()), graph]
        # A new thread is eager even while this one builds a graph.
        eager = threading.Thread(target=lambda: self.drawn.append(float(tf.random.uniform([]))))
        eager.start()
        eager.join()


def test_equal_seeds_draw_the_same(straight_line, tmp_path):
    drawn = []
    for number, seed in enumerate([7, 7, 8]):
        draw = Draw()
        straight_line(tmp_path / str(number)).run([Seed(seed), draw])
        drawn.append(draw.drawn)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == len(drawn[2]) > 0
    assert all(one != other for one, other in zip(drawn[0], drawn[2]))


@pytest.mark.parametrize("wrong", [-1, 2**32, 1.5, None, True])
def test_a_seed_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="expected a whole number from 0"):
        Seed(wrong)
