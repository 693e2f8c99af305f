"""Variables out of a session and back, without adding ops to its graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from ._aligned import aligned_copies

__all__ = ["assign_variables", "initial_feeds", "snapshot_variables"]


def snapshot_variables(sess: tf.Session, variables: Iterable[tf.Variable]) -> dict[str, np.ndarray]:
    """Copies of variables' values, by name, all of one moment."""
    by_name = {variable.op.name: variable for variable in variables}
    values: dict[str, np.ndarray] = sess.run(by_name)
    return values


def assign_variables(sess: tf.Session, values: Mapping[str, np.ndarray]) -> None:
    """Gives variables of the session's graph new values.

    Args:
        sess: the session; its graph may be final.
        values: arrays by variable name, of the variables' shapes and dtypes.

    Raises:
        KeyError: the graph has no variable of such a name.
        ValueError: a shape does not fit.
    """
    # Outside its graph a tensor cannot be a dictionary key where eager execution is on.
    with sess.graph.as_default():
        feeds = initial_feeds(sess.graph, values)
        if feeds:
            by_name = _by_name(sess.graph)
            sess.run([by_name[name].initializer for name in values], feeds)


def initial_feeds(graph: tf.Graph, values: Mapping[str, np.ndarray]) -> dict[tf.Tensor, np.ndarray]:
    """What to feed when initializers run, for variables to begin with other values than their own.

    To be called, and used, while `graph` is the default graph.

    Args:
        graph: has the variables; it may be final.
        values: arrays by variable name, of the variables' shapes and dtypes.

    Raises:
        KeyError: the graph has no variable of such a name.
        ValueError: a shape does not fit.
    """
    variables = _by_name(graph)
    initials, arrays = [], []
    for name, value in values.items():
        if name not in variables:
            raise KeyError(f"The graph has no variable {name!r}.")
        variable = variables[name]
        if not variable.shape.is_compatible_with(value.shape):
            raise ValueError(f"Variable {name!r} has shape {variable.shape}; received {value.shape}.")
        # An initializer assigns its second input, so feeding that assigns anything.
        initial = variable.initializer.inputs[1]
        initials.append(initial)
        arrays.append(np.asarray(value, dtype=initial.dtype.as_numpy_dtype))
    # Copies, because TensorFlow takes aligned arrays as they are: the caller's array and the variable would
    # be one.
    return dict(zip(initials, aligned_copies(arrays)))


def _by_name(graph: tf.Graph) -> dict[str, tf.Variable]:
    keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
    return {variable.op.name: variable for key in keys for variable in graph.get_collection(key)}
