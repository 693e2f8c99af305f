"""Variables out of a session and back, without adding ops to its graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from ._aligned import aligned_copies

__all__ = ["assign_variables", "snapshot_variables"]


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
        variables = {v.op.name: v for v in [*tf.global_variables(), *tf.local_variables()]}
        initials, arrays, initializers = [], [], []
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
            initializers.append(variable.initializer)
        if initializers:
            # Copies, because TensorFlow takes aligned arrays as they are: the caller's array and the variable
            # would be one.
            sess.run(initializers, dict(zip(initials, aligned_copies(arrays))))
