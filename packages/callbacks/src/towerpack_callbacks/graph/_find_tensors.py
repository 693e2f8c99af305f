"""Finds tensors and ops of a graph by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from .._errors import TensorNotFoundError

__all__ = ["as_names", "find_tensors"]


def as_names(names: Sequence[str]) -> list[str]:
    """Returns names as a list.

    Raises:
        TypeError: `names` is one string instead of a list.
    """
    if isinstance(names, str):
        raise TypeError(f"Expected a list of names, received one string: {names!r}. Write [{names!r}].")
    return list(names)


def find_tensors(graph: tf.Graph, names: Sequence[str], prefixes: Sequence[str] = ("",)) -> list[tf.Tensor]:
    """Finds tensors by name, trying each prefix in turn. The name of a variable gives its value.

    Args:
        graph: the graph.
        names: names such as "conv0/output" or "conv0/output:0".
        prefixes: prefixes that a name may have, such as "" and "tower0/".

    Raises:
        TypeError: `names` is one string.
        TensorNotFoundError: no tensor has the name; the message lists similar names.
    """
    return [_find(graph, name, prefixes) for name in as_names(names)]


def _find(graph: tf.Graph, name: str, prefixes: Sequence[str]) -> tf.Tensor:
    tensor_name = name if ":" in name else f"{name}:0"
    for prefix in prefixes:
        try:
            tensor = graph.get_tensor_by_name(prefix + tensor_name)
        except (KeyError, ValueError):
            continue
        return _value(graph, tensor) if tensor.dtype == tf.resource else tensor
    close = _close_names(graph, name.split(":")[0], prefixes)
    tried = ", ".join(repr(prefix + tensor_name) for prefix in prefixes)
    raise TensorNotFoundError(
        f"The graph has no tensor {tried}."
        + (f" Close names are: {', '.join(close)}." if close else "")
        + " Name it in the model, for example tf.identity(x, name=...)."
    )


def _close_names(graph: tf.Graph, name: str, prefixes: Sequence[str]) -> list[str]:
    """Returns similar names of ops, without prefixes."""
    ops = [op.name for op in graph.get_operations()]
    inside = [op.removeprefix(prefix) for op in ops for prefix in prefixes if op.startswith(prefix)]
    beginnings = [op for op in inside if op.startswith(name) or op.rsplit("/", 1)[-1].startswith(name)]
    return list(dict.fromkeys([*difflib.get_close_matches(name, inside, n=3), *beginnings]))[:3]


def _value(graph: tf.Graph, handle: tf.Tensor) -> tf.Tensor:
    """Returns the value of a handle's variable, from an existing read op."""
    for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES):
        for variable in graph.get_collection(key):
            if variable.op.name == handle.op.name:
                return graph.as_graph_element(variable)
    return handle
