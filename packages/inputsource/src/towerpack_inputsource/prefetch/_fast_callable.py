"""Session calls with the minimum overhead of TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

__all__ = ["fast_callable"]


def fast_callable(
    session: tf.Session,
    ops: Sequence[tf.Operation] = (),
    feeds: Sequence[tf.Tensor] = (),
    fetches: Sequence[tf.Tensor] = (),
    options: tf.RunOptions | None = None,
) -> Callable[..., list[Any]]:
    """Returns a function that runs ops in a session, like `session.make_callable` with less overhead.

    With a feed list, make_callable() calls Session.run(), which rebuilds the feed dict in each call; without
    one, TensorFlow looks up ops and fetches by name in each call. The callable that Keras has used since
    TensorFlow 1.6 is identified by a number and does neither; remote sessions may not support it.

    TensorFlow's callable is made at the first call: it prunes and optimises the whole graph, which takes a
    second for a graph with a thousand variables.

    Args:
        session: the session of each call; its graph may be final.
        ops: ops to run.
        feeds: tensors to feed with the arguments of the function, in this order.
        fetches: tensors to return, as a list of values.
        options: options of each call that need no metadata. They are ignored by a session that does not
            support such callables.
    """
    wanted = config_pb2.CallableOptions(
        feed=[tensor.name for tensor in feeds],
        fetch=[tensor.name for tensor in fetches],
        target=[op.name for op in ops],
        run_options=options,
    )

    @functools.cache
    def make() -> Callable[..., Any]:
        try:
            return session._make_callable_from_options(wanted)  # type: ignore[no-any-return]
        except (AttributeError, tf.errors.UnimplementedError):
            run = session.make_callable([list(fetches), list(ops)], list(feeds) or None)
            return lambda *values: run(*values)[0]

    return lambda *values: make()(*values)
