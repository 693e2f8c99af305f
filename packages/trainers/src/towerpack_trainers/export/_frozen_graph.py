"""Freezes a graph: its variables become constants."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from ._signature import Signature

__all__ = ["freeze", "without_advice"]


def freeze(sess: tf.Session, signature: Signature) -> Any:
    """Returns what the outputs depend on as a `GraphDef`, with the values of a session as constants.

    Args:
        sess: has the values.
        signature: its outputs lead to all that is kept.
    """
    names = [tensor.op.name for tensor in signature.outputs.values()]
    with without_advice():
        # TensorFlow has no other public function that freezes a graph with loops and conditions.
        return tf.graph_util.convert_variables_to_constants(sess, sess.graph.as_graph_def(), names)


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """Drops TensorFlow's advice to leave graphs and sessions, which a user of the exporter cannot follow."""
    log = tf.get_logger()
    log.addFilter(_is_no_advice)
    try:
        yield
    finally:
        log.removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "deprecated" not in str(record.msg)
