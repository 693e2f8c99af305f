"""Matches values with the variables of a graph."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from ._variable_differences import Differences

__all__ = ["global_variables", "match_variables", "matching_values"]

_log = logging.getLogger("towerpack_trainers")


def global_variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """Returns the variables of a graph by name."""
    return {v.op.name: v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}


def matching_values(
    variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], differences: Differences
) -> dict[str, np.ndarray]:
    """Returns the values that have a variable of their name, shape and type."""
    matching = [name for name in values if name in variables and name not in differences.unequal]
    return {name: values[name] for name in matching}


def match_variables(
    graph: tf.Graph, values: Mapping[str, np.ndarray], source: str, allow: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Returns the initial values of a graph's variables: all of them, unless a difference is allowed.

    Args:
        graph: the graph with the variables.
        values: arrays by variable name.
        source: the origin of the values.
        allow: kinds of differences that are logged instead of refused; see `SmartInit`.

    Raises:
        RestoreError: names, shapes or dtypes differ between variables and values.
    """
    variables = global_variables(graph)
    differences = Differences.between(variables, values, same_type=True)
    differences.refuse(
        source,
        allow,
        "Build the same model; or allow the difference with resume_allow=[...]; or start a new run from the "
        "matching values with session_init=SmartInit(path).",
    )
    if differences:
        _log.warning(
            "%s does not match this graph (allowed by resume_allow):\n%s", source, differences.describe()
        )
    return matching_values(variables, values, differences)
