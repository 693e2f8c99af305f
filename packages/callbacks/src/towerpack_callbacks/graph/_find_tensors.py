"""Finds tensors and variables of a graph by name, and copies variables."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

import tensorflow.compat.v1 as tf

from .._errors import ScopeError, TensorNotFoundError

__all__ = [
    "as_names",
    "begin_as_copies",
    "copies_are_due",
    "find_tensors",
    "floating_variables",
    "take_copies",
]


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
            tensor = graph.as_graph_element(prefix + tensor_name, allow_operation=False)
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


def floating_variables(
    graph: tf.Graph, scope: str | None, collection: str = tf.GraphKeys.TRAINABLE_VARIABLES
) -> list[tf.Variable]:
    """Returns the floating-point variables of a collection, in one variable scope or in all.

    Args:
        graph: the graph.
        scope: name of a scope, such as "gen" or "gen/block0"; None: all variables.
        collection: name of the collection.

    Raises:
        ScopeError: the scope contains no such variable; the message lists the scopes that do.
    """
    found = [variable for variable in graph.get_collection(collection) if variable.dtype.is_floating]
    if not found:
        raise ScopeError(f"The collection {collection!r} has no floating-point variable.")
    if scope is None:
        return found
    inside = scope.rstrip("/") + "/"
    scoped = [variable for variable in found if variable.op.name.startswith(inside)]
    if not scoped:
        counts = Counter(variable.op.name.rpartition("/")[0] for variable in found)
        there = ", ".join(f"{name or 'no scope'} ({count})" for name, count in sorted(counts.items()))
        raise ScopeError(
            f"No floating-point variable of the collection {collection!r} is in the scope {scope!r}. Scopes "
            f"with their numbers of variables: {there}."
        )
    return scoped


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
