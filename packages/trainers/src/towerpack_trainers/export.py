"""Exports of a trained model to the file formats of other programs; never over other files by accident."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, snapshot_variables
from towerpack_callbacks.graph import find_ancestors
from towerpack_callbacks.writing import atomic_write, replace_directory, sync, write_archive
from towerpack_layers import nonempty_batches

from ._errors import ConfigError, ExportError
from .predict import OfflinePredictor, PredictConfig
from .towers._devices import default_session_config

__all__ = [
    "ModelExporter",
    "Signature",
    "convert_to_lite",
    "convert_to_onnx",
    "freeze",
    "new_directory",
    "new_file",
    "refuse_existing",
    "without_advice",
    "write_saved_model",
]

_PARTS = {"saved_model.pb", "variables", "assets", "assets.extra", "fingerprint.pb", "keras_metadata.pb"}


@contextlib.contextmanager
def new_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yields the path of a file to write, which is renamed at the end of the block.

    Args:
        path: the final path.
        overwrite: whether an existing file may be replaced.

    Raises:
        FileExistsError: `path` exists, or is a directory.
        OSError: the file cannot be written.
    """
    refuse_existing(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, durable=True) as aside:
        yield aside


@contextlib.contextmanager
def new_directory(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yields the path of a directory to fill, which is renamed at the end of the block.

    Args:
        path: the final path.
        overwrite: whether an existing SavedModel may be replaced.

    Raises:
        FileExistsError: `path` exists, contains other files than those of a SavedModel, or is being written
            by another process.
        OSError: the directory cannot be written.
    """
    if path.exists() and not (overwrite and (path / "saved_model.pb").is_file()):
        raise FileExistsError(_existing(path, "a SavedModel" if overwrite else ""))
    if path.is_dir() and (others := sorted(set(os.listdir(path)) - _PARTS)):
        raise FileExistsError(
            f"{path} has {others[0]!r}, which is not part of a SavedModel and would be lost. Move it, or "
            "choose another path."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.writing")
    with _alone_in(aside, path):
        try:
            yield aside
            for part in [*aside.rglob("*"), aside]:
                sync(part)
            replace_directory(aside, path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


@contextlib.contextmanager
def _alone_in(aside: Path, path: Path) -> Iterator[None]:
    """Makes an empty directory, locked for the block; removes the files of a killed process in it."""
    aside.mkdir(exist_ok=True)
    descriptor = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileExistsError(
                f"{path} is being written by another process. Wait for it, or choose another path."
            ) from error
        for left in aside.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield
    finally:
        os.close(descriptor)


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Checks that a file may be made.

    Raises:
        FileExistsError: `path` exists, or is a directory.
    """
    if path.is_dir() or (path.exists() and not overwrite):
        raise FileExistsError(_existing(path, "a file" if overwrite else ""))


def _existing(path: Path, replaceable: str) -> str:
    if replaceable:
        return f"{path} exists and is not {replaceable}, so it is not replaced. Choose another path."
    return f"{path} exists. Choose another path, or allow overwriting (overwrite=True; --overwrite)."


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


@final
@attrs.frozen(eq=False)
class Signature:
    """The inputs and outputs of an exported function.

    Attributes:
        inputs: the tensors to feed, by name.
        outputs: the tensors to fetch, by name.
    """

    inputs: Mapping[str, tf.Tensor]
    outputs: Mapping[str, tf.Tensor]

    @classmethod
    def of(cls, predictor: OfflinePredictor, config: PredictConfig) -> Signature:
        """Returns the checked signature of a predictor.

        Raises:
            ExportError: there is no output, an output needs an input that is not named, or a named input is
                not needed.
        """
        outputs = _by_name(config.output_names, predictor.outputs)
        if not outputs:
            raise ExportError("There is nothing to export: output_names is empty. Name an output.")
        if config.input_names is None:
            # All inputs of the model, including those of the cost only.
            needed = _needed(predictor.inputs, outputs.values())
            inputs = {tensor.op.name: tensor for tensor in predictor.inputs if tensor.name in needed}
        else:
            inputs = _by_name(config.input_names, predictor.inputs)
        signature = cls(inputs, outputs)
        signature._check()
        return signature

    def _check(self) -> None:
        outputs = ", ".join(self.outputs)
        needed = _needed(self.inputs.values(), self.outputs.values())
        idle = [name for name, tensor in self.inputs.items() if tensor.name not in needed]
        if idle:
            raise ExportError(
                f"No output ({outputs}) depends on the input {', '.join(idle)}. Remove it from input_names."
            )
        ancestors = find_ancestors(self.outputs.values(), self.inputs.values())
        missing = sorted(op.name for op in ancestors if op.type == "Placeholder")
        if missing:
            raise ExportError(
                f"The outputs {outputs} need the input {', '.join(missing)}, which is not in "
                f"input_names={list(self.inputs)}. Add it, or export outputs that do not need it."
            )


def _by_name(names: Sequence[str], tensors: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name.removesuffix(":0"): tensor for name, tensor in zip(names, tensors)}


def _needed(inputs: Iterable[tf.Tensor], outputs: Iterable[tf.Tensor]) -> set[str]:
    """Returns the names of all tensors on which the outputs depend."""
    outputs = list(outputs)
    ancestors = find_ancestors(outputs, inputs)
    return {tensor.name for op in ancestors for tensor in op.inputs} | {tensor.name for tensor in outputs}


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
