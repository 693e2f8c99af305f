"""Which of some values the variables of a graph take."""

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
    """Returns the values that variables of a graph begin with: all of them, unless a difference is allowed.

    Args:
        graph: has the variables.
        values: arrays by variable name.
        source: where the values come from.
        allow: kinds of differences that are logged and not refused; see `SmartInit`.

    Raises:
        RestoreError: names, shapes or types are not the same on both sides.
    """
    variables = global_variables(graph)
    differences = Differences.between(variables, values, same_type=True)
    differences.refuse(
        source,
        allow,
        "Build the same model; or allow the difference, resume_allow=[...]; or start anew from what fits, "
        "session_init=SmartInit(path).",
    )
    if differences:
        _log.warning("%s does not fit this graph, as is allowed:\n%s", source, differences.describe())
    return matching_values(variables, values, differences)
