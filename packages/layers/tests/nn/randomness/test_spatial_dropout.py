from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Dropout, SpatialDropout, TowerContext, TowerError, argscope

Run = Callable[..., Any]


def masks(steps: list[int], x: Any, **options: Any) -> list[np.ndarray]:
    """The results of a layer in a new graph for an input of ones, at the given steps."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        with TowerContext("", is_training=True, random_seed=3, step=step):
            out = SpatialDropout("dropout", tf.ones(x), rate=0.25, **options)
        return [session.run(out, {step: value}) for value in steps]


@pytest.mark.parametrize("shape", [[20, 5, 30], [20, 5, 4, 30], [20, 5, 4, 3, 30]], ids=str)
@pytest.mark.parametrize("seed", [None, 3])
def test_whole_maps_are_dropped(run: Run, shape: list[int], seed: int | None) -> None:
    first = [shape[0], shape[-1], *shape[1:-1]]
    with TowerContext("", is_training=True, random_seed=seed, step=tf.constant(7)):
        last = SpatialDropout("a", tf.ones(shape), rate=0.25)
        turned = SpatialDropout("b", tf.ones(first), rate=0.25, data_format="channels_first")
    a, b = run([last, turned])
    for maps in (a.reshape(20, -1, 30).swapaxes(1, 2), b.reshape(20, 30, -1)):
        assert (maps == maps[..., :1]).all()
        assert set(np.unique(maps)) == {0.0, np.float32(1 / 0.75)}
        assert maps.mean() == pytest.approx(1, abs=0.12)
        assert (maps[0] != maps[1]).any()


def test_a_resumed_run_draws_the_same() -> None:
    whole, rest = masks([0, 1, 2], [4, 3, 3, 64]), masks([2], [4, 3, 3, 64])
    assert np.array_equal(whole[2], rest[0])
    assert (whole[1] != whole[2]).any()


@pytest.mark.parametrize("seed", [None, 3])
def test_the_batch_may_be_unknown(run: Run, seed: int | None) -> None:
    x = tf.placeholder(tf.float32, [None, None, 8])
    with TowerContext("", is_training=True, random_seed=seed, step=tf.constant(7)):
        out = SpatialDropout("d", x)
    assert out.shape.as_list() == [None, None, 8]
    assert run(out, {x: np.ones([5, 4, 8])}).shape == (5, 4, 8)


def test_follows_the_tower_and_not_the_scope_of_dropout(run: Run) -> None:
    x = tf.ones([2, 3, 100])
    with TowerContext("InferenceTower", is_training=False), argscope(Dropout, rate=0.9, training=True):
        assert run(SpatialDropout("d", x)).min() == 1.0


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ([2, 3], {}, r"the input's rank must be 3 or 4 or 5"),
        ([2, 3, 4], {"rate": 1.0}, r"rate must be a number with 0 <= rate < 1, received 1.0"),
        ([2, 3, 4], {"data_format": "first"}, "data_format must be .* received 'first'"),
    ],
)
def test_bad_arguments(graph: tf.Graph, shape: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpatialDropout("d", tf.ones(shape), training=True, **options)


def test_outside_any_tower_training_must_be_given(graph: tf.Graph) -> None:
    with pytest.raises(TowerError, match="needs a training mode"):
        SpatialDropout("d", tf.ones([2, 3, 4]))
