"""Properties of layers that normalise each example separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import GroupNorm, InstanceNorm, LayerNorm, TowerContext

Run = Callable[..., Any]
LAYERS = [(LayerNorm, {}), (InstanceNorm, {}), (GroupNorm, {"groups": 3})]
each = pytest.mark.parametrize(("layer", "options"), LAYERS, ids=[layer.layer_name for layer, _ in LAYERS])


def images(size: tuple[int, ...] = (4, 5, 7, 6)) -> np.ndarray:
    return np.random.default_rng(0).normal(2.0, 3.0, size=size)


@each
def test_an_example_does_not_depend_on_the_others(run: Run, layer: Any, options: Any) -> None:
    x = tf.constant(images())
    whole = layer("norm", x, **options)
    with tf.variable_scope("", reuse=True):
        alone = layer("norm", x[1:2], **options)
    whole, alone = run([whole, alone])
    np.testing.assert_allclose(whole[1:2], alone, rtol=1e-12)


@each
def test_training_and_inference_are_alike(run: Run, layer: Any, options: Any) -> None:
    x, outs = tf.constant(images()), []
    for name, training in (("", True), ("inference", False)):
        with TowerContext(name, is_training=training, reuse=not training or None):
            outs.append(layer("norm", x, **options))
    one, other = run(outs)
    assert np.array_equal(one, other)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_groups_between_the_layer_and_the_instances(run: Run) -> None:
    x = tf.constant(images())
    pairs = [
        (GroupNorm("one", x, groups=1), LayerNorm("layer", x)),
        (GroupNorm("each", x, groups=6), InstanceNorm("instance", x)),
    ]
    for one, other in run(pairs):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@each
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_sixty_four_bits_in_both_formats(run: Run, layer: Any, options: Any, data_format: str) -> None:
    given = images()
    first = data_format == "channels_first"
    x = tf.constant(given.transpose(0, 3, 1, 2) if first else given)
    out = layer("norm", x, data_format=data_format, gamma_initializer=2.0, **options)
    assert {out.dtype, *(variable.dtype.base_dtype for variable in out.variables.all())} == {tf.float64}
    value = run(out)
    value = value.transpose(0, 2, 3, 1) if first else value
    groups = {LayerNorm: 1, InstanceNorm: 6, GroupNorm: 3}[layer]
    parts = given.reshape(4, 35, groups, 6 // groups)
    mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    wanted = 2 * ((parts - mean) / np.sqrt(variance + 1e-5)).reshape(given.shape)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)


@each
def test_half_precision_is_summed_as_float32(run: Run, layer: Any, options: Any) -> None:
    given = (images((2, 32, 32, 6)) + 100).astype("f2")
    half, single = (
        layer("half", tf.constant(given), **options),
        layer("single", given.astype("f4") + tf.zeros([]), **options),
    )
    assert {variable.dtype.base_dtype for variable in half.variables.all()} == {tf.float32}
    one, other = run([half, single])
    np.testing.assert_allclose(one, other.astype("f2"), rtol=1e-3, atol=1e-3)


@each
def test_without_center_and_scale(run: Run, layer: Any, options: Any) -> None:
    out = layer("norm", tf.constant(images()), center=False, scale=False, **options)
    assert tf.trainable_variables() == out.variables.all() == []
    np.testing.assert_allclose(run(out).mean(), 0, atol=1e-9)


@each
def test_unknown_sizes_and_no_examples(graph: tf.Graph, layer: Any, options: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None, None, 6])
    out = layer("norm", x, **options)
    assert out.shape.as_list() == [None, None, None, 6]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        gradients = tf.gradients(out, [x, *tf.trainable_variables()])
        value, by_x, *others = session.run([out, *gradients], {x: np.zeros([0, 4, 4, 6])})
    assert value.shape == by_x.shape == (0, 4, 4, 6)
    assert all((gradient == 0).all() for gradient in others)


@pytest.mark.parametrize(
    ("layer", "shape", "options", "error", "message"),
    [
        (LayerNorm, [2, 3, 4], {}, ValueError, "rank must be 2 or 4"),
        (InstanceNorm, [2, 3], {}, ValueError, "rank must be 4"),
        (LayerNorm, [2, None], {}, ValueError, "the size of axis 1 of the input must be known"),
        (LayerNorm, [2, 3], {"epsilon": -1}, ValueError, "epsilon must not be negative, received -1"),
        (LayerNorm, [2, 3], {"data_format": "CN"}, ValueError, "data_format must be .* received 'CN'"),
        (LayerNorm, [2, 3], {"gamma_initializer": np.ones(2)}, ValueError, r"variable's shape \[3\]"),
        (
            GroupNorm,
            [2, 6],
            {"groups": 4},
            ValueError,
            "groups must divide the number of channels, 6; rec.* 4",
        ),
        (GroupNorm, [2, 6], {"groups": 0}, ValueError, "groups must be a positive int, received 0"),
        (GroupNorm, [2, 6], {"groups": True}, ValueError, "groups must be a positive int, received True"),
    ],
)
def test_bad_values(
    graph: tf.Graph, layer: Any, shape: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        layer("norm", tf.placeholder(tf.float32, shape), **options)
    assert tf.global_variables() == []


@each
def test_integers_are_refused(graph: tf.Graph, layer: Any, options: Any) -> None:
    with pytest.raises(TypeError, match="the input must be a float tensor, received int32"):
        layer("norm", tf.ones([2, 4, 4, 6], tf.int32), **options)
