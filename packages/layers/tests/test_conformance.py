"""Common properties of all layers, checked over one table."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as tf
from layer_table import CASES

import towerpack_layers
from towerpack_layers import DuplicateLayerError, GraphRequiredError, LinearWrap, TowerContext, argscope
from towerpack_layers.testing import LayerCase, LayerChecks

every_layer = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
# Shared numbers of the checks of one layer are computed once.
CHECKS = {case.name: LayerChecks(case) for case in CASES}


@pytest.fixture(scope="module")
def of_empty_batches() -> dict[str, Any]:
    """The errors of all layers on a batch without examples, from one other process."""
    return LayerChecks.run_empty_batches(CASES)


def test_the_table_is_complete() -> None:
    public = [getattr(towerpack_layers, name) for name in towerpack_layers.__all__]
    layers = {member for member in public if hasattr(member, "layer_name")}
    assert {case.layer for case in CASES} == layers
    assert len(CHECKS) == len(CASES), "two rows have one name; give them labels"


def test_layers_without_a_reference_are_random() -> None:
    without = {case.layer.layer_name for case in CASES if case.reference is None}
    assert without == {"Dropout", "SpatialDropout"}


@every_layer
@pytest.mark.parametrize("check", [name for name in LayerChecks.names if name != "empty batch"])
def test_layer(case: LayerCase, check: str) -> None:
    CHECKS[case.name].run(check)


@pytest.mark.slow
@every_layer
def test_empty_batch(case: LayerCase, of_empty_batches: dict[str, Any]) -> None:
    error = of_empty_batches[case.name]
    if error is not None:
        raise error


@every_layer
def test_two_layers_of_one_name(graph: tf.Graph, case: LayerCase) -> None:
    x = tf.ones(case.shape, case.dtype)
    name = case.layer.layer_name
    with TowerContext("", is_training=True):
        case.build(x)
        with pytest.raises(DuplicateLayerError, match=f"scope 'layer' is already used by a {name}"):
            case.build(x)


@every_layer
def test_linearwrap_and_argscope(graph: tf.Graph, case: LayerCase) -> None:
    with TowerContext("", is_training=True), argscope(case.layer, **case.options):
        wrap = LinearWrap(case.inputs(tf.ones(case.shape, case.dtype)))
        out = getattr(wrap, case.layer.layer_name)("layer")()
    assert out.name == "layer/output:0"


@every_layer
def test_eager_mode(case: LayerCase) -> None:
    with pytest.raises(GraphRequiredError, match=rf"{case.layer.layer_name}\('layer'\) builds a graph"):
        case.build(tf.ones(case.shape, case.dtype))
