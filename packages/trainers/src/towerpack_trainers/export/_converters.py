"""Converts a graph for other runtimes than TensorFlow: LiteRT and ONNX."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import ExportError
from ._frozen_graph import without_advice
from ._saved_model import write_saved_model
from ._signature import Signature

__all__ = ["convert_to_lite", "convert_to_onnx"]


def convert_to_lite(sess: tf.Session, signature: Signature, signature_name: str) -> bytes:
    """Converts the graph and the values of a session to a LiteRT model.

    Raises:
        ExportError: LiteRT does not support an op; the message names it.
    """
    with tempfile.TemporaryDirectory() as scratch, without_advice():
        # The converter makes a signature with names only from a SavedModel.
        directory = Path(scratch) / "saved_model"
        write_saved_model(sess, signature, directory, ["serve"], signature_name)
        converter = tf.compat.v2.lite.TFLiteConverter.from_saved_model(
            str(directory), signature_keys=[signature_name]
        )
        try:
            converted: bytes = converter.convert()
        except Exception as error:  # the converter's error class is private
            raise ExportError(
                f"LiteRT cannot express this model: {_first_reason(error)} Export a SavedModel and convert "
                "it with custom options: tf.lite.TFLiteConverter.from_saved_model."
            ) from error
    return converted


def convert_to_onnx(frozen: Any, signature: Signature, opset: int | None) -> bytes:
    """Converts a frozen graph to an ONNX model.

    Args:
        frozen: a `GraphDef` without variables.
        signature: its inputs and outputs.
        opset: the version of the operator set; None: the default of tf2onnx.

    Raises:
        ExportError: ONNX does not support an op; the message names it.
        ImportError: tf2onnx is not installed.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError("Export to ONNX needs an extra: pip install 'towerpack-trainers[onnx]'") from error
    import onnx

    names = {t.name: name for name, t in (*signature.inputs.items(), *signature.outputs.items())}
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            frozen,
            input_names=[tensor.name for tensor in signature.inputs.values()],
            output_names=[tensor.name for tensor in signature.outputs.values()],
            tensors_to_rename=names,
            opset=opset,
        )
        # Only this check refuses an unsupported op; tf2onnx logs it and leaves it in the graph.
        onnx.checker.check_model(model)
    except Exception as error:  # tf2onnx has no error class
        raise ExportError(f"ONNX cannot express this model: {_first_reason(error)}") from error
    converted: bytes = model.SerializeToString()
    return converted


def _first_reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    chosen = next((line for line in lines if "TF Select ops" in line or "Custom ops" in line), "")
    return f"{chosen or (lines[0] if lines else type(error).__name__)}."
