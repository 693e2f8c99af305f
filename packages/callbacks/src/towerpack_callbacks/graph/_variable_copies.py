"""Variables that begin as copies of others, such as averages and target networks.

They are declared while the graph is built. A checkpoint that a run begins from may lack them; then the copies
are made when it is restored, as only the names of the restored variables tell which ones are due.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow.compat.v1 as tf

__all__ = ["begin_as_copies", "copies_are_due", "take_copies"]

# A tuple, as TensorFlow writes collections of other keys into its files.
_COPIES = ("towerpack_variable_copies",)


def begin_as_copies(graph: tf.Graph, pairs: Iterable[tuple[tf.Variable, tf.Variable]]) -> None:
    """Declares variables that begin as copies where a checkpoint lacks them.

    Args:
        graph: has the variables.
        pairs: each variable that is a copy, and what it is a copy of.
    """
    graph.get_collection_ref(_COPIES).extend(pairs)


def take_copies(graph: tf.Graph) -> list[tuple[tf.Variable, tf.Variable]]:
    """Returns the declared pairs, which are declared no longer; the graph may be final."""
    declared = graph.get_collection_ref(_COPIES)
    pairs = list(declared)
    declared.clear()
    return pairs


def copies_are_due(graph: tf.Graph, copies: Iterable[tf.Variable]) -> bool:
    """Returns whether some of these variables are declared as copies, and nobody has made the copies."""
    names = {copy.op.name for copy in copies}
    return any(copy.op.name in names for copy, _ in graph.get_collection(_COPIES))
