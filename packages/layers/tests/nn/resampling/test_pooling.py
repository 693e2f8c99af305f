from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import AvgPooling, GlobalAvgPooling, MaxPooling, nonempty_batches

Run = Callable[..., Any]


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=[2, 6, 8, 3]).astype("f4")


@pytest.mark.parametrize(("layer", "reduce"), [(MaxPooling, np.max), (AvgPooling, np.mean)])
@pytest.mark.parametrize("channels_first", [False, True])
def test_windows(run: Run, images: np.ndarray, layer: Any, reduce: Any, channels_first: bool) -> None:
    x, data_format = images, "channels_last"
    if channels_first:
        x, data_format = images.transpose(0, 3, 1, 2), "channels_first"
    value = run(layer("pool", tf.constant(x), (2, 4), data_format=data_format))
    value = value.transpose(0, 2, 3, 1) if channels_first else value
    wanted = reduce(images.reshape(2, 3, 2, 2, 4, 3), axis=(2, 4))
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [MaxPooling, AvgPooling])
def test_strides_and_padding(graph: tf.Graph, layer: Any) -> None:
    x = tf.ones([1, 7, 7, 1])
    assert layer("a", x, 3).shape.as_list() == [1, 2, 2, 1]
    assert layer("b", x, 3, padding="SAME").shape.as_list() == [1, 3, 3, 1]
    assert layer("c", x, 3, strides=1).shape.as_list() == [1, 5, 5, 1]
    assert layer("d", x, 3, strides=(1, 2), padding="same").shape.as_list() == [1, 7, 4, 1]


def test_mean_of_a_padded_window_ignores_the_padding(run: Run) -> None:
    assert run(AvgPooling("p", tf.ones([1, 3, 3, 1]), 2, padding="same")).min() == 1.0


@pytest.mark.parametrize("channels_first", [False, True])
def test_global_mean(run: Run, images: np.ndarray, channels_first: bool) -> None:
    data_format = "channels_first" if channels_first else "channels_last"
    axes = (2, 3) if channels_first else (1, 2)
    value = run(GlobalAvgPooling("gap", tf.constant(images), data_format))
    np.testing.assert_allclose(value, images.mean(axes), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "options", "message"),
    [
        (MaxPooling, {"pool_size": 0}, r"MaxPooling\('p'\): pool_size must be a positive int"),
        (AvgPooling, {"pool_size": 2, "strides": 0}, r"AvgPooling\('p'\): strides must be a positive int"),
        (AvgPooling, {"pool_size": 2, "padding": None}, "padding must be 'same' or 'valid', received None"),
        (
            GlobalAvgPooling,
            {"data_format": "last"},
            r"GlobalAvgPooling\('p'\): data_format .* received 'last'",
        ),
    ],
)
def test_bad_arguments(graph: tf.Graph, layer: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer("p", tf.ones([1, 4, 4, 1]), **options)


@pytest.mark.parametrize("layer", [MaxPooling, AvgPooling, GlobalAvgPooling])
def test_inputs_must_be_images(graph: tf.Graph, layer: Any) -> None:
    options = {} if layer is GlobalAvgPooling else {"pool_size": 2}
    with pytest.raises(ValueError, match=r"the input's rank must be 4, received a tensor of shape \(4, 4\)"):
        layer("p", tf.ones([4, 4]), **options)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_an_unknown_number_of_examples_changes_nothing(run: Run, images: np.ndarray, padding: str) -> None:
    x = tf.placeholder(tf.float32, [None, 6, 8, 3])
    constant = tf.constant(images)
    outs = [MaxPooling("a", x, 2, padding=padding), MaxPooling("b", constant, 2, padding=padding)]
    assert outs[0].name == "a/output:0"
    assert outs[0].shape.as_list()[1:] == outs[1].shape.as_list()[1:]
    gradients = [tf.gradients(out**2, source)[0] for out, source in zip(outs, (x, constant), strict=True)]
    (first, second), (by_first, by_second) = run([outs, gradients], {x: images})
    assert np.array_equal(first, second)
    assert np.array_equal(by_first, by_second)
    assert run(outs[0], {x: images[:0]}).shape[0] == 0


def test_a_batch_that_is_known_to_have_no_examples(run: Run) -> None:
    x = tf.zeros([0, 6, 8, 3])
    out = MaxPooling("a", x, 2)
    assert out.shape == [0, 3, 4, 3]
    value, by_input = run([out, tf.gradients(out, x)[0]])
    assert (value.shape, by_input.shape) == ((0, 3, 4, 3), (0, 6, 8, 3))


def test_no_ops_for_batches_without_examples(run: Run, images: np.ndarray) -> None:
    x = tf.placeholder(tf.float32, [None, 6, 8, 3])
    with nonempty_batches():
        alone = MaxPooling("a", x, 2)
    guarded = MaxPooling("b", x, 2)
    assert alone.op.inputs[0].op.type == "MaxPool"
    assert alone.shape.as_list() == guarded.shape.as_list() == [None, 3, 4, 3]
    assert np.array_equal(*run([alone, guarded], {x: images}))


def test_a_compiled_pool(run: Run, images: np.ndarray) -> None:
    x = tf.placeholder(tf.float32, [None, 6, 8, 3])
    with tf.xla.experimental.jit_scope():
        out = MaxPooling("a", x, 2)
        gradient = tf.gradients(out**2, x)[0]
    value, by_input = run([out, gradient], {x: images})
    assert value.shape == (2, 3, 4, 3)
    assert by_input.shape == images.shape
