"""What holds for every layer, checked over one table of them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table import CASES

import towerpack_layers
from towerpack_layers import (
    DuplicateLayerError,
    GraphRequiredError,
    LinearWrap,
    TowerContext,
    argscope,
)
from towerpack_layers.testing import LayerCase

every_layer = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
images = [case for case in CASES if case.has_data_format and case.reference]
floating = [case for case in CASES if case.dtype.is_floating]


def build(case: LayerCase, x: Any = None, **more: Any) -> Any:
    """Builds the layer over ones, or over another input."""
    x = tf.ones(case.shape, case.dtype) if x is None else x
    return case.layer("layer", case.inputs(x), **{**case.options, **more})


def test_the_table_is_complete() -> None:
    public = [getattr(towerpack_layers, name) for name in towerpack_layers.__all__]
    layers = {member for member in public if hasattr(member, "layer_name")}
    assert {case.layer for case in CASES} == layers


@every_layer
@pytest.mark.parametrize("is_training", [True, False])
def test_names_of_variables_and_output(graph: tf.Graph, case: LayerCase, is_training: bool) -> None:
    with tf.variable_scope("net"), TowerContext("tower", is_training=is_training):
        out = build(case)
    assert out.name == "tower/layer/output:0"
    assert [v.op.name for v in tf.global_variables()] == [f"net/layer/{name}" for name in case.variables]


@pytest.mark.parametrize("case", floating, ids=[case.name for case in floating])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16], ids=lambda dtype: dtype.name)
def test_dtype_is_kept_and_gradients_flow(run: Any, case: LayerCase, dtype: Any) -> None:
    x = tf.cast(tf.constant(np.random.default_rng(0).normal(size=case.shape)), dtype)
    with TowerContext("", is_training=True):
        out = build(case, x)
    assert out.dtype == dtype
    targets = [x, *tf.trainable_variables()]
    gradients = tf.gradients(tf.reduce_sum(tf.square(out)), targets)
    for gradient, target in zip(run(gradients), targets, strict=True):
        assert gradient.dtype == target.dtype.as_numpy_dtype
        assert np.isfinite(gradient.astype("f4")).all()
    # What is normalised has the same sum of squares whatever the scale; all others pass a gradient on.
    normalises = "norm" in case.layer.layer_name.lower()
    assert normalises or np.abs(run(gradients[0]).astype("f4")).max() > 0


@pytest.mark.parametrize("case", images, ids=[case.name for case in images])
def test_channels_first(run: Any, case: LayerCase) -> None:
    with TowerContext("", is_training=True):
        last = build(case)
    with TowerContext("again", is_training=True, reuse=True):
        turned = np.moveaxis(np.ones(case.shape, "f4"), -1, 1)
        first = build(case, tf.constant(turned), data_format="channels_first")
    a, b = run([last, first])
    b = b if b.ndim < 3 else np.moveaxis(b, 1, -1)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@every_layer
def test_second_tower_shares_and_inference_follows(graph: tf.Graph, case: LayerCase) -> None:
    for index in range(2):
        with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=2, reuse=index > 0):
            assert build(case).name == f"tower{index}/layer/output:0"
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        assert build(case).name == "InferenceTower/layer/output:0"
    assert len(tf.global_variables()) == len(case.variables)


@every_layer
def test_two_layers_of_one_name(graph: tf.Graph, case: LayerCase) -> None:
    with TowerContext("", is_training=True):
        build(case)
        with pytest.raises(
            DuplicateLayerError, match=f"layer scope 'layer' is already used, by a {case.layer.layer_name}"
        ):
            build(case)


@every_layer
def test_linearwrap_and_argscope(graph: tf.Graph, case: LayerCase) -> None:
    with TowerContext("", is_training=True), argscope(case.layer, **case.options):
        wrap = LinearWrap(case.inputs(tf.ones(case.shape, case.dtype)))
        out = getattr(wrap, case.layer.layer_name)("layer")()
    assert out.name == "layer/output:0"


@every_layer
def test_batch_size_may_be_unknown(graph: tf.Graph, case: LayerCase) -> None:
    with TowerContext("", is_training=True):
        out = build(case, tf.placeholder(case.dtype, [None, *case.shape[1:]]))
    assert out.shape.as_list()[0] is None
    assert None not in out.shape.as_list()[1:]


@every_layer
def test_wrong_inputs(graph: tf.Graph, case: LayerCase) -> None:
    with TowerContext("", is_training=True):
        with pytest.raises(TypeError, match=r"the input must be a .*tensor.*, received str"):
            case.layer("layer", "image", **case.options)
        with pytest.raises(ValueError, match="rank"):
            build(case, tf.placeholder(tf.float32))


@every_layer
def test_eager_mode(case: LayerCase) -> None:
    with pytest.raises(GraphRequiredError, match=rf"{case.layer.layer_name}\('layer'\) builds a graph"):
        build(case)


@every_layer
def test_docstring(case: LayerCase) -> None:
    text = inspect.getdoc(case.layer) or ""
    for section in ("Args:", "Returns:", "Example:"):
        assert section in text
    for parameter in list(inspect.signature(case.layer.__wrapped__).parameters):
        assert f"    {parameter}: " in text, f"{parameter} is not described"
