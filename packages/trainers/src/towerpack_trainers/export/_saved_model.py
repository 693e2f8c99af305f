"""Writes a SavedModel from a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, snapshot_variables

from ..session import default_session_config
from ._frozen_graph import without_advice
from ._signature import Signature

__all__ = ["write_saved_model"]


def write_saved_model(
    sess: tf.Session, signature: Signature, directory: Path, tags: Sequence[str], signature_name: str
) -> None:
    """Writes the graph and the values of a session, with one signature.

    Args:
        sess: the session with the values; its graph may be final.
        signature: the inputs and outputs of the function.
        directory: an empty directory.
        tags: the tags of the graph.
        signature_name: the name of the function.

    Raises:
        OSError: a file cannot be written.
    """
    values = snapshot_variables(sess, sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))
    with without_advice(), tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(_meta_graph(sess.graph)) or tf.train.Saver(allow_empty=True)
        start = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
        assets = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
        functions = {signature_name: _function(graph, signature)}
        with tf.Session(config=default_session_config()) as copy:
            copy.run(tf.global_variables_initializer())
            assign_variables(copy, values)
            builder = tf.saved_model.Builder(str(directory))
            try:
                builder.add_meta_graph_and_variables(
                    copy, list(tags), functions, assets, main_op=start, strip_default_attrs=True, saver=saver
                )
                builder.save()
            except tf.errors.OpError as error:
                raise OSError(f"The SavedModel cannot be written: {_reason(error, directory)}") from error


def _meta_graph(graph: tf.Graph) -> Any:
    """Describes a graph, for a copy of it: the SavedModel writer adds ops, and the graph is final."""
    # Without this option TensorFlow adds a collection to the graph.
    return tf.train.export_meta_graph(graph=graph, clear_devices=True, unbound_inputs_col_name=None)


def _function(graph: tf.Graph, signature: Signature) -> Any:
    return tf.saved_model.build_signature_def(
        _infos(graph, signature.inputs),
        _infos(graph, signature.outputs),
        tf.saved_model.PREDICT_METHOD_NAME,
    )


def _infos(graph: tf.Graph, tensors: Mapping[str, tf.Tensor]) -> dict[str, Any]:
    return {
        name: tf.saved_model.build_tensor_info(graph.get_tensor_by_name(tensor.name))
        for name, tensor in tensors.items()
    }


def _reason(error: Exception, directory: Path) -> str:
    """Returns the text of an error; of TensorFlow's many lines, only the one with the file name."""
    lines = str(error).splitlines()
    return next((line for line in lines if str(directory) in line), lines[0])
