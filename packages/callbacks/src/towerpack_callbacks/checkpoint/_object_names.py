"""Names for what `tf.train.Checkpoint` wrote, which are paths through objects otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tensorflow.core.protobuf import trackable_object_graph_pb2

__all__ = ["OBJECT_GRAPH", "variable_names"]

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def variable_names(object_graph: Any) -> dict[str, str]:
    """Names by key of an object-based checkpoint.

    A variable is called what it was called where it was made, such as "fc0/kernel". Where it had no name, or
    shares it with another one, it is called by its path through the objects, such as "model/encoder/w".

    Args:
        object_graph: the value under `OBJECT_GRAPH`, a serialized `TrackableObjectGraph`.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(object_graph)
    named = {
        attribute.checkpoint_key: attribute.full_name
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key.endswith(_VALUE)
    }
    count = Counter(named.values())
    return {
        key: name if name and count[name] == 1 else key.removesuffix(_VALUE) for key, name in named.items()
    }
