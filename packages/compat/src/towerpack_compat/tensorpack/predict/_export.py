"""`tensorpack.tfutils.export`: export of models with their weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.tools.optimize_for_inference_lib import optimize_for_inference

from ..tfutils.session import fit_to_host
from ..utils import logger
from ._offline import PredictConfig, placeholders

__all__ = ["ModelExporter"]


class ModelExporter:
    """Exports the model of a configuration with its weights, between its inputs and its outputs.

    Args:
        config: a `PredictConfig`.
    """

    def __init__(self, config: PredictConfig) -> None:
        self.config = config

    def export_compact(self, filename: str, optimize: bool = True, toco_compatible: bool = False) -> None:
        """Writes a `GraphDef` in which the variables are constants.

        Args:
            filename: the file.
            optimize: whether to remove ops that inference does not need.
            toco_compatible: whether to keep the placeholders' attributes for TensorFlow Lite's converter.
        """
        assert optimize or not toco_compatible, "toco_compatible is only effective when optimize=True!"
        with self._built() as (sess, inputs, outputs):
            names = [tensor.op.name for tensor in outputs]
            frozen = tf.graph_util.convert_variables_to_constants(sess, sess.graph.as_graph_def(), names)
            if optimize:
                kinds = [tensor.dtype.as_datatype_enum for tensor in inputs]
                feeds = [tensor.op.name for tensor in inputs]
                frozen = optimize_for_inference(frozen, feeds, names, kinds, toco_compatible)
        with tf.gfile.GFile(filename, "wb") as file:
            file.write(frozen.SerializeToString())
        logger.info("Output graph written to %s.", filename)

    def export_serving(
        self, filename: str, tags: Sequence[str] | None = None, signature_name: str = "prediction_pipeline"
    ) -> None:
        """Writes a SavedModel; its signature uses the tensor names of the graph.

        Args:
            filename: the folder; it must not exist yet.
            tags: the tags; None: TensorFlow's tag for serving.
            signature_name: the name of the signature.
        """
        with self._built() as (sess, *tensors):
            describe = tf.saved_model.build_tensor_info
            described = [{tensor.name: describe(tensor) for tensor in each} for each in tensors]
            signature = tf.saved_model.build_signature_def(*described, tf.saved_model.PREDICT_METHOD_NAME)
            builder = tf.saved_model.Builder(filename)
            builder.add_meta_graph_and_variables(
                sess, list(tags or [tf.saved_model.SERVING]), {signature_name: signature}
            )
            builder.save()
        logger.info("SavedModel created at %s.", filename)

    @contextlib.contextmanager
    def _built(self) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        config = self.config
        with config.choose_graph().as_default():
            handle = config.build("", placeholders(config.input_signature))
            config.session_init._setup_graph()
            # The session of the configuration would assign initial values to variables that are not restored.
            with tf.Session(config=fit_to_host(tf.ConfigProto(allow_soft_placement=True))) as sess:
                config.session_init._run_init(sess)
                yield sess, handle.get_tensors(config.input_names), handle.get_tensors(config.output_names)
