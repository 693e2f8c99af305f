"""Creates the session of a run, and the threads that TensorFlow uses for it."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, complete_copies, initial_feeds

from ..towers._devices import check_session_has_towers

__all__ = ["configure_process", "create_session"]

_log = logging.getLogger("towerpack_trainers")


def create_session(
    graph: tf.Graph,
    config: tf.ConfigProto,
    target: str = "",
    values: Mapping[str, np.ndarray] | None = None,
) -> tf.Session:
    """Creates a session with all variables and tables initialised, and makes the graph final.

    Args:
        graph: the graph to run.
        config: the options of the session.
        target: the server that runs it; "" for none.
        values: values that replace the variables' own initial values, which are then not computed; arrays by
            name.

    Raises:
        ConfigError: the session lacks the device of a tower.
    """
    with graph.as_default():
        feeds, shared = initial_feeds(graph, values or {})
        initializers = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
    graph.finalize()
    sess = tf.Session(target, graph=graph, config=config)
    try:
        check_session_has_towers(sess)
        sess.run(initializers, feeds)
        assign_variables(sess, shared)
        complete_copies(sess)
    except BaseException:
        sess.close()
        raise
    return sess


def configure_process(config: tf.ConfigProto) -> None:
    """Sets TensorFlow's settings that exist once per process: the number of threads, and a setting of oneDNN.

    oneDNN keeps compiled code for a convolution's gradients, as it does for the convolution itself,
    which costs no memory. TensorFlow reads `TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE` at the first such op; an
    existing value in the environment is kept.

    The threads are made by the first session or the first eager op, and building a graph often includes an
    eager op: with a `tf.while_loop` in it, steps of a small model take nearly twice as long. Call this
    function before building. If it is too late, a warning is logged.

    Args:
        config: the session's options.
    """
    os.environ.setdefault("TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE", "false")
    for name in ("intra_op_parallelism_threads", "inter_op_parallelism_threads"):
        number = getattr(config, name)
        if not number:
            continue  # TensorFlow decides, in both places
        try:
            getattr(tf.config.threading, f"set_{name}")(number)
        except RuntimeError:
            _warn_that_it_is_too_late(name, number)


@functools.cache  # once per process, as the threads are made
def _warn_that_it_is_too_late(name: str, number: int) -> None:
    _log.warning(
        "An eager op ran before the trainer was made, so %s=%d may have no effect, and steps can take "
        "twice as long. Make the trainer first, or begin with tf.config.threading.set_%s(%d).",
        name,
        number,
        name,
        number,
    )
