"""Converts a graph for other programs than TensorFlow: LiteRT, and what runs ONNX."""

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
    """Returns the graph and the values of a session as a model of LiteRT.

    Raises:
        ExportError: LiteRT has no counterpart of an op; the message names it.
    """
    with tempfile.TemporaryDirectory() as scratch, without_advice():
        # Out of a SavedModel alone, the converter makes a signature with names.
        directory = Path(scratch) / "saved_model"
        write_saved_model(sess, signature, directory, ["serve"], signature_name)
        converter = tf.compat.v2.lite.TFLiteConverter.from_saved_model(
            str(directory), signature_keys=[signature_name]
        )
        try:
            converted: bytes = converter.convert()
        except Exception as error:  # the converter has an error of its own, which is private
            raise ExportError(
                f"LiteRT cannot express this model: {_first_reason(error)} Export a SavedModel, and convert "
                "that with options of your own: tf.lite.TFLiteConverter.from_saved_model."
            ) from error
    return converted


def convert_to_onnx(frozen: Any, signature: Signature, opset: int | None) -> bytes:
    """Returns a frozen graph as an ONNX model.

    Args:
        frozen: a `GraphDef` without variables.
        signature: what it takes and gives.
        opset: the version of the set of operators; None: the default of tf2onnx.

    Raises:
        ExportError: ONNX has no counterpart of an op; the message names it.
        ImportError: tf2onnx is not installed.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError("An export to ONNX needs: pip install 'towerpack-trainers[onnx]'") from error
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
        # Only this refuses an op without counterpart, which tf2onnx logs and leaves in.
        onnx.checker.check_model(model)
    except Exception as error:  # tf2onnx has no error of its own
        raise ExportError(f"ONNX cannot express this model: {_first_reason(error)}") from error
    converted: bytes = model.SerializeToString()
    return converted


def _first_reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    chosen = next((line for line in lines if "TF Select ops" in line or "Custom ops" in line), "")
    return f"{chosen or (lines[0] if lines else type(error).__name__)}."
