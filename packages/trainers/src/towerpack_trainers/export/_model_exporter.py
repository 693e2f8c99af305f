"""Writes a trained model in the formats of other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_callbacks.writing import write_archive
from towerpack_layers import nonempty_batches

from .._errors import ConfigError
from ..predict import OfflinePredictor, PredictConfig
from ._converters import convert_to_lite, convert_to_onnx
from ._frozen_graph import freeze
from ._new_paths import new_directory, new_file, refuse_existing
from ._saved_model import write_saved_model
from ._signature import Signature

__all__ = ["ModelExporter"]

_NAME = "serving_default"


@final
class ModelExporter:
    """Writes a model with its weights to files that run without the code of the model.

    Each method builds the evaluation replica, restores the values, and writes the graph from the inputs to
    the outputs. A file or directory appears complete or not at all; missing parent directories are made.

    Args:
        config: the model, the values, and the names of inputs and outputs, as for an `OfflinePredictor`.
            `input_names=None` selects the inputs that the outputs depend on.
        ema: export the moving averages of the callback `EMA` instead of the weights; see
            `PredictConfig(ema=True)`.
        overwrite: replace an existing file, or an existing directory if it is a SavedModel.

    Raises:
        ExportError: (each method, as all errors below) an output needs an input that is not named, a named
            input is not needed, or the format cannot express the model.
        FileExistsError: the path exists.
        TensorNotFoundError: the model has no tensor of a requested name.
        RestoreError, CheckpointError: the values do not match, or cannot be read.
        OSError: the file cannot be written.

    Example:
        ```python
        exporter = ModelExporter(
            PredictConfig(
                model=Model(),
                session_init=SaverRestore("train_log/run/latest"),
                input_names=["image"],
                output_names=["probabilities"],
            )
        )
        exporter.export_serving("exported/lenet/1")
        exporter.export_lite("exported/lenet.tflite")
        ```
    """

    def __init__(self, config: PredictConfig, *, ema: bool = False, overwrite: bool = False) -> None:
        if not isinstance(config, PredictConfig):
            kind = type(config).__name__
            raise ConfigError(f"ModelExporter received {config!r} of type {kind}; expected a PredictConfig.")
        self._config = attrs.evolve(config, ema=True) if ema else config
        self._overwrite = overwrite

    def export_serving(
        self, path: str | Path, tags: Sequence[str] = ("serve",), signature_name: str = _NAME
    ) -> None:
        """Writes a SavedModel for `tf.saved_model.load`, TensorFlow Serving, and converters.

        Args:
            path: the directory to make. TensorFlow Serving expects a directory named by a number, inside the
                model's directory.
            tags: the tags of the graph in the SavedModel.
            signature_name: the name of the function in the graph. Its arguments and results have the names of
                inputs and outputs.
        """
        if isinstance(tags, str):
            raise TypeError(f"Expected a list of tags, received one string: {tags!r}. Write [{tags!r}].")
        with new_directory(Path(path), self._overwrite) as aside, self._build() as built:
            write_saved_model(*built, aside, tags, signature_name)

    def export_compact(self, path: str | Path) -> None:
        """Writes a frozen graph: a `GraphDef` with constants instead of variables, and nothing else.

        Tensors keep their names; read it with `tf.graph_util.import_graph_def`.

        Args:
            path: the file to make, such as `model.pb`.
        """
        with new_file(Path(path), self._overwrite) as aside, self._build() as built:
            aside.write_bytes(freeze(*built).SerializeToString())

    def export_lite(self, path: str | Path) -> None:
        """Writes a LiteRT (formerly TensorFlow Lite) model with TensorFlow's own converter.

        The batch size is free (at least 1). The signature is `serving_default`, with the names of inputs and
        outputs.

        Args:
            path: the file to make, such as `model.tflite`.
        """
        with new_file(Path(path), self._overwrite) as aside, nonempty_batches(), self._build() as built:
            aside.write_bytes(convert_to_lite(*built, _NAME))

    def export_onnx(self, path: str | Path, opset: int | None = None) -> None:
        """Writes an ONNX model, converted from the frozen graph by tf2onnx.

        The batch size is free (at least 1). Inputs and outputs keep their names.

        Args:
            path: the file to make, such as `model.onnx`.
            opset: the version of the operator set; None: the default of tf2onnx.

        Raises:
            ImportError: tf2onnx is not installed; it comes with the extra `onnx`.
        """
        with new_file(Path(path), self._overwrite) as aside, nonempty_batches(), self._build() as built:
            aside.write_bytes(convert_to_onnx(freeze(*built), built[1], opset))

    def export_variables(self, path: str | Path) -> None:
        """Writes the values of the model's variables to a NumPy archive, by name.

        Read it with `SmartInit` or `np.load`.

        Args:
            path: the file to make, such as `weights.npz`.
        """
        path = Path(path)
        refuse_existing(path, self._overwrite)
        with OfflinePredictor(self._config) as predictor:
            variables = predictor.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
            values = snapshot_variables(predictor.session, variables)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_archive(path, values)

    @contextlib.contextmanager
    def _build(self) -> Iterator[tuple[Any, Signature]]:
        with OfflinePredictor(self._config) as predictor:
            yield predictor.session, Signature.of(predictor, self._config)
