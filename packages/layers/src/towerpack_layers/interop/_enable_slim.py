"""tf_slim on today's TensorFlow."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..registry import check_graph_mode
from ..tower import get_current_tower_context

__all__ = ["enable_slim", "repair_slim"]

_TRAINED = ("batch_norm", "dropout")


def enable_slim() -> None:
    """Makes `tf_slim` work inside tower functions; call it once, after `import tf_slim` or before.

    As installed, tf_slim 1.1 looks for classes where TensorFlow and tf_keras had them in 2020, which makes
    its `batch_norm` fail. And its `batch_norm` and `dropout` train unless they are told not to, in towers
    that evaluate as well. After this call they work, and their `is_training` is by default the current
    tower's; an argument of the call, or of a `slim.arg_scope`, wins. Everything else of tf_slim is as it was:
    it keeps to `tf.get_variable` and to TensorFlow's collections. `slim.dropout` draws by TensorFlow's
    stateful generator, so a resumed run does not repeat its masks; `towerpack_layers.Dropout` does.

    This changes modules of tf_slim for the whole process; a second call changes nothing. Names that were
    imported before, as by `from tf_slim import dropout`, stay as they were.

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
            f"enable_slim: {error}. Install it by: pip install 'towerpack-layers[slim]'"
        ) from error
    layers.normalization_layers = normalization
    if not isinstance(utils.ops, _OldOps):
        _find_moved_classes(utils.ops)
    return tf_slim


def _find_moved_classes(ops: Any) -> None:
    """Gives the modules of tf_slim a module `ops` of TensorFlow that has the classes which have moved."""
    for name in [name for name in sys.modules if name.startswith("tf_slim.")]:
        for alias in ("ops", "framework_ops"):
            if vars(sys.modules[name]).get(alias) is ops:
                setattr(sys.modules[name], alias, _OldOps(ops))


@final
class _OldOps:
    """TensorFlow's module `ops`, with the classes that tf_slim looks for in it."""

    Tensor = tf.Tensor
    IndexedSlices = tf.IndexedSlices

    def __init__(self, ops: Any) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ops, name)


def _training_by_tower(original: Any, current_arg_scope: Callable[[], Any]) -> Any:
    """Returns a function of tf_slim whose `is_training` is by default the tower's."""
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
