"""Name scopes that can be reopened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow.compat.v1 as tf

from .._errors import ScopeError
from ..registry import check_graph_mode
from ..tower import graph_notes

__all__ = ["cached_name_scope"]


@contextlib.contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """Opens a name scope, or reopens an existing one, without a suffix such as `_1`.

    Each graph has separate scopes. Inside a body of `tf.cond` or `tf.while_loop`, the scope belongs to the
    body.

    Args:
        name: the scope.
        top_level: whether the scope is at the root of the graph, even inside of other scopes (and of a
            tower). Otherwise it is within the enclosing scope.

    Yields:
        The full name of the scope, with a trailing slash.

    Raises:
        ScopeError: `name` is not a name.
        GraphRequiredError: TensorFlow executes eagerly.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import cached_name_scope
        >>> with tf.Graph().as_default():
        ...     for k in range(2):
        ...         with tf.name_scope("layer"), cached_name_scope("statistics"):
        ...             print(tf.constant(k, name="value").name)
        statistics/value:0
        statistics/value_1:0
    """
    if not isinstance(name, str) or not name.strip("/"):
        raise ScopeError(f"cached_name_scope: name must be a name, received {name!r}.")
    check_graph_mode(f"cached_name_scope({name!r})")
    graph, scopes = tf.get_default_graph(), graph_notes().name_scopes
    around = "" if top_level else graph.get_name_scope()
    wanted = "/".join(filter(None, (around, name.strip("/"))))
    place = getattr(graph, "name", ""), wanted
    if place not in scopes:
        with tf.name_scope(None), tf.name_scope(wanted) as opened:
            scopes[place] = str(opened)
    with tf.name_scope(scopes[place]):
        yield scopes[place]
