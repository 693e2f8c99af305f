"""Logging of the shapes of layers, and its deactivation."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import tensorflow.compat.v1 as tf

from ..tower import get_current_tower_context, graph_notes

__all__ = ["disable_layer_logging", "log_shapes"]

_log = logging.getLogger("towerpack_layers")

_is_disabled: ContextVar[bool] = ContextVar("towerpack_layers_is_logging_disabled", default=False)


def disable_layer_logging() -> contextlib.ExitStack:
    """Disables the logging of layer shapes from now on, or within a `with` block.

    It applies only to this thread (precisely, this `contextvars` context).

    Returns:
        A context manager that enables the logging again, at the end of the block or by `.close()`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, disable_layer_logging
        >>> with tf.Graph().as_default(), disable_layer_logging():
        ...     out = FullyConnected("fc", tf.ones([2, 3]), 4)  # is not logged
    """
    before = _is_disabled.get()
    _is_disabled.set(True)
    end = contextlib.ExitStack()
    end.callback(_is_disabled.set, before)
    return end


def log_shapes(scope: str, inputs: Any, outputs: Any) -> None:
    """Logs the shapes of a layer's input and output, once for each layer of a graph."""
    tower = get_current_tower_context()
    if _is_disabled.get() or (tower is not None and tower.index > 0):
        return
    if graph_notes().first_time("shape", scope):
        _log.info("%s: %s -> %s", scope, _shapes(inputs), _shapes(outputs))


def _shapes(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shapes, value))
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tf.TensorShape(shape))
