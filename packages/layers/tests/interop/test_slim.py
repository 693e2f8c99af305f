"""tf_slim after `enable_slim`: scopes of arguments, reuse, and who trains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext, l2_regularizer, regularize_cost_from_collection
from towerpack_layers.interop import enable_slim

slim = pytest.importorskip("tf_slim")
pytest.importorskip("tf_keras")
Run = Callable[..., Any]
pytestmark = pytest.mark.slow

enable_slim()


def _network(image: tf.Tensor, **norm: Any) -> tf.Tensor:
    weights = {"weights_regularizer": l2_regularizer(1.0), "weights_initializer": tf.ones_initializer()}
    with (
        slim.arg_scope([slim.conv2d, slim.fully_connected], normalizer_fn=slim.batch_norm, **weights),
        slim.arg_scope([slim.batch_norm], decay=0.5, **norm),
    ):
        x = slim.conv2d(image, 4, 3)
        x = slim.repeat(x, 2, slim.conv2d, 4, 1, scope="rest")
        x = slim.max_pool2d(x, 2)
        return slim.fully_connected(slim.flatten(x), 3, scope="fc")


def test_scopes_names_and_costs(run: Run) -> None:
    """Names that slim chooses are the same in all towers, those with variables of their own included."""
    image, names = tf.ones([2, 4, 4, 2]), {}
    for index, options in enumerate([{}, {"reuse": True}, {"variable_scope": "tower2"}]):
        with TowerContext(f"tower{index}", is_training=True, index=index, num_towers=3, **options) as tower:
            _network(image)
            cost = regularize_cost_from_collection()
            made = tower.get_collection_in_tower(tf.GraphKeys.MODEL_VARIABLES)
            names[index] = [variable.op.name.removeprefix("tower2/") for variable in made]
            assert run(cost) == pytest.approx((9 * 2 * 4 + 2 * 16 + 16 * 3) / 2)
    assert names[0] == names[2]
    assert names[0][:2] == ["Conv/weights", "Conv/BatchNorm/beta"]
    assert not names[1]


@pytest.mark.parametrize("given", [None, True, False])
def test_who_trains(graph: tf.Graph, given: bool | None) -> None:
    """The tower says it, unless the call or an arg_scope does."""
    image = tf.ones([2, 4, 4, 2])
    for name, training in [("train", True), ("evaluate", False)]:
        with TowerContext(name, is_training=training, reuse=None if training else True) as tower:
            _network(image, **({} if given is None else {"is_training": given}))
            updates = tower.get_collection_in_tower(tf.GraphKeys.UPDATE_OPS)
            assert len(updates) == (8 if (training if given is None else given) else 0)
            dropped = slim.dropout(image, 0.5) if given is None else slim.dropout(image, is_training=given)
            drops = any("random" in op.name.lower() for op in _ancestors(dropped))
            assert drops == (training if given is None else given)


def _ancestors(tensor: tf.Tensor) -> list[tf.Operation]:
    ops, waiting = [], [tensor.op]
    while waiting:
        ops.append(waiting.pop())
        waiting += [found.op for found in ops[-1].inputs]
    return ops


def test_outside_of_towers_slim_decides(graph: tf.Graph) -> None:
    slim.batch_norm(tf.ones([2, 4, 4, 2]))
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2


def test_fused_for_vectors_and_kept_in_place(run: Run) -> None:
    """The two other ways of slim's batch_norm: of vectors, and with updates in place."""
    with TowerContext("", is_training=True):
        x = tf.constant([[4.0], [8.0]])
        out = slim.batch_norm(x, decay=0.5, updates_collections=None, scope="bn")
        assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    (mean,) = (variable for variable in tf.global_variables() if "moving_mean" in variable.op.name)
    with tf.control_dependencies([out]):
        read = mean.read_value()
    np.testing.assert_allclose(run(read), [3.0])


def test_enabling_twice_changes_nothing() -> None:
    before = slim.batch_norm
    enable_slim()
    assert slim.batch_norm is before is slim.layers.batch_norm


def test_slim_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf_slim", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-layers\[slim\]'"):
        enable_slim()


def test_batch_norm_takes_a_tensor_as_is_training(run: Run) -> None:
    training = tf.placeholder_with_default(True, [])
    out = slim.batch_norm(tf.constant([[1.0], [3.0]]), is_training=training)
    np.testing.assert_allclose(run(out), [[-1.0], [1.0]], atol=1e-2)
