"""Makes tf_slim work with current TensorFlow."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..registry._layer_scope import check_graph_mode
from ..tower._tower_context import get_current_tower_context

__all__ = ["enable_slim", "repair_slim"]

_TRAINED = ("batch_norm", "dropout")


def enable_slim() -> None:
    """Makes `tf_slim` work inside tower functions; call it once, before or after `import tf_slim`.

    tf_slim 1.1 imports classes from their locations in TensorFlow and tf_keras of 2020, so its `batch_norm`
    fails. Moreover, its `batch_norm` and `dropout` use training mode by default, also in evaluation towers.
    After this call they work, and their `is_training` defaults to that of the current tower; an argument of
    the call or of a `slim.arg_scope` takes precedence. The rest of tf_slim is unchanged: it uses
    `tf.get_variable` and TensorFlow's collections. `slim.dropout` uses TensorFlow's stateful generator, so a
    resumed run does not repeat its masks; `towerpack_layers.Dropout` does.

    The call changes modules of tf_slim for the whole process; a second call has no effect. Names imported
    earlier, as by `from tf_slim import dropout`, are unchanged.

    Raises:
        ImportError: tf_slim or tf_keras is not installed.

    Example:
        ```python
        import tf_slim as slim
        from towerpack_layers.interop import enable_slim

        enable_slim()
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm):
            net = slim.conv2d(image, 32, 3, scope="conv0")
        ```
    """
    tf_slim = repair_slim()
    from tf_slim.layers import layers

    for name in _TRAINED:
        original = getattr(layers, name)
        if not hasattr(original, "towerpack_original"):
            adapted = _training_by_tower(original, tf_slim.current_arg_scope)
            for module in (layers, tf_slim.layers, tf_slim):
                setattr(module, name, adapted)


def repair_slim() -> Any:
    """Gives `tf_slim` the classes that have moved since, and nothing else; returns it.

    Raises:
        ImportError: tf_slim or tf_keras is not installed.
    """
    try:
        import tf_slim
        from tf_keras.src.legacy_tf_layers import normalization
        from tf_slim.layers import layers, utils
    except ImportError as error:
        raise ImportError(
            f"enable_slim: {error}. Install it with: pip install 'towerpack-layers[slim]'"
        ) from error
    layers.normalization_layers = normalization
    utils.control_flow_ops = _OldControlFlow
    if not isinstance(utils.ops, _OldOps):
        _find_moved_classes(utils.ops)
    return tf_slim


def _find_moved_classes(ops: Any) -> None:
    """Gives the modules of tf_slim a TensorFlow module `ops` that contains the moved classes."""
    for name in [name for name in sys.modules if name.startswith("tf_slim.")]:
        for alias in ("ops", "framework_ops"):
            if vars(sys.modules[name]).get(alias) is ops:
                setattr(sys.modules[name], alias, _OldOps(ops))


@final
class _OldOps:
    """TensorFlow's module `ops`, with the classes that tf_slim expects in it."""

    Tensor = tf.Tensor
    IndexedSlices = tf.IndexedSlices

    def __init__(self, ops: Any) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ops, name)


@final
class _OldControlFlow:
    """The function of TensorFlow's `control_flow_ops` that tf_slim calls for a tensor `is_training`."""

    @staticmethod
    def cond(pred: Any, true_fn: Any, false_fn: Any, name: str | None = None) -> Any:
        return tf.cond(pred, true_fn, false_fn, name=name)


def _training_by_tower(original: Any, current_arg_scope: Callable[[], Any]) -> Any:
    """Wraps a function of tf_slim so that `is_training` defaults to that of the tower."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def adapted(*args: Any, **kwargs: Any) -> Any:
        check_graph_mode(original.__name__)
        given = {
            **current_arg_scope().get(original._key_op, {}),
            **signature.bind_partial(*args, **kwargs).arguments,
        }
        tower = get_current_tower_context()
        if tower is not None and "is_training" not in given:
            kwargs["is_training"] = tower.is_training
        return original(*args, **kwargs)

    vars(adapted)["towerpack_original"] = original
    return adapted
