"""Freezes a graph: replaces its variables by constants."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from ._signature import Signature

__all__ = ["freeze", "without_advice"]


def freeze(sess: tf.Session, signature: Signature) -> Any:
    """Returns the graph from inputs to outputs as a `GraphDef`, with the values of a session as constants.

    Args:
        sess: the session with the values.
        signature: the inputs and the outputs.
    """
    graph_def = sess.graph.as_graph_def()
    _cut_before(signature.inputs.values(), graph_def)
    names = [tensor.op.name for tensor in signature.outputs.values()]
    with without_advice():
        # TensorFlow has no other public function that freezes a graph with loops and conditionals.
        return tf.graph_util.convert_variables_to_constants(sess, graph_def, names)


def _cut_before(inputs: Iterable[tf.Tensor], graph_def: Any) -> None:
    """Replaces inputs by placeholders, also inputs with a default and inputs that the model computes."""
    cut = {tensor.op.name: tensor for tensor in inputs if len(tensor.op.outputs) == 1}
    for node in graph_def.node:
        if node.name in cut:
            tensor = cut[node.name]
            node.op = "Placeholder"
            del node.input[:]
            node.attr.clear()
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """Suppresses TensorFlow's advice against graphs and sessions, which does not apply here."""
    log = tf.get_logger()
    log.addFilter(_is_no_advice)
    try:
        yield
    finally:
        log.removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "deprecated" not in str(record.msg)
