from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import ImageSample, LinearWrap, mixed_precision

Run = Callable[..., Any]


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=[2, 3, 4, 2])


def grid(*rows_and_columns: Any) -> np.ndarray:
    """Coordinates `[2, 1, K, 2]`, the same for both images."""
    return np.array([[rows_and_columns]] * 2, "f8")


def test_pixels_by_their_numbers(run: Run, images: np.ndarray) -> None:
    value = run(ImageSample("s", [tf.constant(images), tf.constant(grid((0, 0), (1, 2), (2, 3)))]))
    assert np.array_equal(value[:, 0], images[:, [0, 1, 2], [0, 2, 3]])


def test_between_pixels(run: Run, images: np.ndarray) -> None:
    value = run(ImageSample("s", [tf.constant(images), tf.constant(grid((0.25, 1), (1, 2.5)))]))[:, 0]
    np.testing.assert_allclose(value[:, 0], 0.75 * images[:, 0, 1] + 0.25 * images[:, 1, 1])
    np.testing.assert_allclose(value[:, 1], (images[:, 1, 2] + images[:, 1, 3]) / 2)


OUTSIDE = grid((-0.5, 1), (2.5, 3.5), (-np.inf, 0), (1, 99), (np.inf, np.inf))


@pytest.mark.parametrize("border_mode", ["replicate", "repeat"])
def test_the_border_is_replicated(run: Run, images: np.ndarray, border_mode: str) -> None:
    value = run(ImageSample("s", [tf.constant(images), tf.constant(OUTSIDE)], border_mode))
    assert np.array_equal(value[:, 0], images[:, [0, 2, 0, 1, 2], [1, 3, 0, 3, 3]])


def test_the_border_is_zero(run: Run, images: np.ndarray) -> None:
    value = run(ImageSample("s", [tf.constant(images), tf.constant(OUTSIDE)], "constant"))
    assert not value.any()


@pytest.mark.slow
@pytest.mark.parametrize("border_mode", ["replicate", "constant"])
def test_gradients_by_finite_differences(graph: tf.Graph, images: np.ndarray, border_mode: str) -> None:
    places = grid((0.3, 1.6), (1.7, 2.2), (-0.4, 1.4), (2.6, 3.3))
    x, at = tf.constant(images), tf.constant(places)
    out = ImageSample("s", [x, at], border_mode)
    with tf.Session():
        for source, value in ((x, images), (at, places)):
            symbolic, numeric = tf.test.compute_gradient(
                source, value.shape, out, out.shape.as_list(), x_init_value=value
            )
            np.testing.assert_allclose(symbolic, numeric, atol=1e-6)


def test_sizes_may_be_unknown(run: Run, images: np.ndarray) -> None:
    x, at = tf.placeholder(tf.float32, [None, None, None, 2]), tf.placeholder(tf.float32, [None] * 4)
    out = LinearWrap([x, at]).ImageSample("s")()
    assert out.shape.as_list() == [None, None, None, 2]
    fed = {x: images, at: grid((0, 0), (1, 2))}
    assert np.array_equal(run(out, fed)[:, 0], images[:, [0, 1], [0, 2]].astype("f4"))
    assert run(out, {x: images[:0], at: np.zeros([0, 6, 7, 2])}).shape == (0, 6, 7, 2)


@pytest.mark.parametrize("count", [1, 3])
def test_as_many_coordinates_as_images(run: Run, images: np.ndarray, count: int) -> None:
    at = tf.placeholder(tf.float64, [None, 1, 1, 2])
    out = ImageSample("s", [tf.constant(images), at])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"[Ss]hape"):
        run(out, {at: np.zeros([count, 1, 1, 2])})


@pytest.mark.parametrize(
    ("inputs", "options", "error", "message"),
    [
        ([[2, 3, 4, 5]], {}, TypeError, r"ImageSample\('s'\): the input must be a list of two tensors"),
        ([[2, 3, 4, 5], [2, 1, 1, 3]], {}, ValueError, r"\(2, height, width, 2\), received \(2, 1, 1, 3\)"),
        ([[2, 3, 4, 5], [3, 1, 1, 2]], {}, ValueError, r"\(2, height, width, 2\), received \(3, 1, 1, 2\)"),
        ([[2, 3, 4], [2, 1, 1, 2]], {}, ValueError, "the input's rank must be 4"),
        (
            [[2, 3, 4, 5], [2, 1, 1, 2]],
            {"border_mode": "wrap"},
            ValueError,
            "border_mode must be 'replicate' or 'constant', received 'wrap'",
        ),
    ],
)
def test_bad_arguments(graph: tf.Graph, inputs: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        ImageSample("s", [tf.ones(shape) for shape in inputs], **options)


def test_mixed_precision_leaves_coordinates_alone(run: Run) -> None:
    image = tf.reshape(tf.range(1000.0), [1, 1, 1000, 1]) % 2
    at = tf.constant([[[[0.0, 900.75]]]])
    with mixed_precision(tf.bfloat16):
        out = ImageSample("s", [image, at], border_mode="constant")
    assert out.dtype == tf.bfloat16
    assert run(tf.cast(out, tf.float32)).item() == 0.75
    with pytest.raises(TypeError, match="coordinates must be float32 or float64, received bfloat16"):
        ImageSample("t", [image, tf.zeros([1, 1, 1, 2], tf.bfloat16)])


def test_the_old_spelling(graph: tf.Graph) -> None:
    with pytest.warns(DeprecationWarning, match="borderMode=.*border_mode="):
        ImageSample("s", [tf.ones([1, 2, 2, 1]), tf.zeros([1, 1, 1, 2])], borderMode="constant")


def test_coordinates_are_not_integers(graph: tf.Graph) -> None:
    with pytest.raises(TypeError, match="the inputs must be floating tensors, received int32"):
        ImageSample("s", [tf.ones([1, 2, 2, 1]), tf.zeros([1, 1, 1, 2], tf.int32)])
