"""Finds the variables of one part of a model by their variable scope."""

from __future__ import annotations

from collections import Counter

import tensorflow.compat.v1 as tf

from .._errors import ScopeError

__all__ = ["floating_variables"]


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
