from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FixedUnPooling

Run = Callable[..., Any]


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=[2, 3, 4, 5]).astype("f4")


@pytest.mark.parametrize("shape", [2, (1, 3)], ids=str)
def test_pixels_come_to_the_top_left(run: Run, images: np.ndarray, shape: Any) -> None:
    down, across = (shape, shape) if isinstance(shape, int) else shape
    value = run(FixedUnPooling("u", tf.constant(images), shape))
    assert value.shape == (2, 3 * down, 4 * across, 5)
    assert np.array_equal(value[:, ::down, ::across], images)
    value[:, ::down, ::across] = 0
    assert not value.any()


def test_a_matrix_of_ones_repeats_pixels(run: Run, images: np.ndarray) -> None:
    value = run(FixedUnPooling("u", tf.constant(images), (2, 3), np.ones([2, 3])))
    assert np.array_equal(value, images.repeat(2, 1).repeat(3, 2))


def test_the_matrix_may_be_a_variable(run: Run, images: np.ndarray) -> None:
    matrix = tf.get_variable("m", [2, 2], initializer=tf.ones_initializer())
    out = FixedUnPooling("u", tf.constant(images), 2, matrix)
    np.testing.assert_allclose(run(tf.gradients(out, matrix)[0]), np.full([2, 2], images.sum()), rtol=1e-5)


def test_zeros_stay_zeros_next_to_infinite_values(run: Run) -> None:
    value = run(FixedUnPooling("u", tf.fill([1, 1, 1, 1], np.inf), 2))
    assert value.reshape(-1).tolist() == [np.inf, 0, 0, 0]


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("matrix", [None, np.ones([2, 3])], ids=["corner", "ones"])
def test_static_shape_is_dynamic_shape(
    run: Run, images: np.ndarray, channels_first: bool, matrix: Any
) -> None:
    images = np.moveaxis(images, -1, 1) if channels_first else images
    data_format = "channels_first" if channels_first else "channels_last"
    known = FixedUnPooling("a", tf.constant(images), (2, 3), matrix, data_format)
    x = tf.placeholder(tf.float32, [None] * 4)
    free = FixedUnPooling("b", x, (2, 3), matrix, data_format)
    a, b = run([known, free], {x: images})
    assert known.shape == a.shape
    assert free.shape.as_list() == [None] * 4
    assert np.array_equal(a, b)
    assert run(free, {x: images[:0]}).shape == (0, *a.shape[1:])


def test_integers(run: Run) -> None:
    out = FixedUnPooling("u", tf.constant([[[[3]]]]), 2, [[1, 2], [3, 4]])
    assert run(out).reshape(2, 2).tolist() == [[3, 6], [9, 12]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": 0}, r"FixedUnPooling\('u'\): shape must be a positive int or two of them, received 0"),
        ({"unpool_mat": np.ones([2, 3])}, r"unpool_mat must have the shape \[2, 2\], received .*\(2, 3\)"),
        ({"data_format": "HWC"}, "data_format must be .* received 'HWC'"),
    ],
)
def test_bad_arguments(graph: tf.Graph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedUnPooling("u", tf.ones([1, 2, 2, 1]), **{"shape": 2, **options})
