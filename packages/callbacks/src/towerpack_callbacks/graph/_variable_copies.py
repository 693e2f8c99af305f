"""Variables that start as copies of others, such as averages and target networks.

They are declared while the graph is built. If the checkpoint of a run lacks them, they are copied after the
restore, since only the names of the restored variables show which copies are missing.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow.compat.v1 as tf

__all__ = ["begin_as_copies", "copies_are_due", "take_copies"]

# The key is a tuple because TensorFlow exports collections with string keys.
_COPIES = ("towerpack_variable_copies",)


def begin_as_copies(graph: tf.Graph, pairs: Iterable[tuple[tf.Variable, tf.Variable]]) -> None:
    """Declares variables that start as copies if a checkpoint lacks them.

    Args:
        graph: the graph of the variables.
        pairs: pairs of a copy and its original.
    """
    graph.get_collection_ref(_COPIES).extend(pairs)


def take_copies(graph: tf.Graph) -> list[tuple[tf.Variable, tf.Variable]]:
    """Removes and returns the declared pairs; the graph may be final."""
    declared = graph.get_collection_ref(_COPIES)
    pairs = list(declared)
    declared.clear()
    return pairs


def copies_are_due(graph: tf.Graph, copies: Iterable[tf.Variable]) -> bool:
    """Returns whether some of these variables are declared as copies that have not been made yet."""
    names = {copy.op.name for copy in copies}
    return any(copy.op.name in names for copy, _ in graph.get_collection(_COPIES))
