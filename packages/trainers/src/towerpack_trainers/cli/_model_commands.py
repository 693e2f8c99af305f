"""`describe`, `export` and `predict`: the commands on a trained model."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tensorflow.compat.v1 as tf
from tqdm import tqdm

from towerpack_callbacks.writing import write_archive

from ..export import ModelExporter
from ..predict import OfflinePredictor, PredictConfig
from ..reports._describe_training import describe_trainable_variables
from ..restore._session_init import SaverRestore
from ..towers._model_desc import ModelDesc

__all__ = [
    "TrainerCommandError",
    "add_describe",
    "add_export",
    "add_model",
    "add_predict",
    "add_trained_model",
    "make_config",
    "show_progress",
]


class TrainerCommandError(Exception):
    """A command failed; the message gives the reason in one line, and the exit status is 1."""


def add_trained_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for a checkpoint, the model, and its weights."""
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        type=Path,
        help="a checkpoint, or a log directory (its latest checkpoint is used); or a TensorFlow checkpoint, "
        "or a .npz file",
    )
    add_model(parser)
    parser.add_argument(
        "--ema", action="store_true", help="use the moving averages of the callback EMA as weights"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for a model and its outputs."""
    parser.add_argument(
        "--model",
        required=True,
        type=_model_name,
        metavar="MODULE:CLASS",
        help="the model, such as package.module:Class, as importable from this directory; a ModelDesc class, "
        "or a function without arguments that returns a model",
    )
    parser.add_argument(
        "--outputs", required=True, nargs="+", metavar="NAME", help="tensors, by their names in the model"
    )


def make_config(options: argparse.Namespace, inputs: Sequence[str] | None) -> PredictConfig:
    """Returns the prediction configuration for the arguments.

    Raises:
        TrainerCommandError: the model or the checkpoint does not exist.
    """
    model = _load_model(*options.model)
    source: Path | None = getattr(options, "checkpoint", None)
    if source is not None and not source.exists() and not source.with_name(f"{source.name}.index").exists():
        raise TrainerCommandError(f"there is no checkpoint {source}")
    config = PredictConfig(
        model=model,
        session_init=None if source is None else SaverRestore(source),
        input_names=inputs,
        output_names=options.outputs,
    )
    return attrs.evolve(config, ema=True) if getattr(options, "ema", False) else config


class _ExampleProgress(tqdm):  # type: ignore[type-arg]
    """A bar without tqdm's monitor thread, which would outlive the command."""

    monitor_interval = 0


def show_progress(items: Sequence[Any], what: str, unit: str) -> Any:
    """Returns the items with tqdm's progress bar, on a terminal and for more than one item."""
    return _ExampleProgress(items, desc=what, unit=unit, disable=True if len(items) == 1 else None)


def _model_name(text: str) -> tuple[str, str]:
    module, colon, name = text.partition(":")
    if not colon or not re.fullmatch(r"\w+(\.\w+)*", module) or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected package.module:Class; received {text!r}")
    return module, name


def _load_model(module_name: str, name: str) -> ModelDesc:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise TrainerCommandError(
            f"{module_name} cannot be imported: {error}. Run the command in the directory from which Python "
            "imports it, or set PYTHONPATH"
        ) from error
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, dir(module), n=3)
        raise TrainerCommandError(
            f"{module_name} has no {name}" + (f"; close: {', '.join(close)}" if close else "")
        )
    model: Any = getattr(module, name)
    if callable(model) and not isinstance(model, ModelDesc):
        try:
            model = model()
        except TypeError as error:
            raise TrainerCommandError(
                f"{module_name}:{name} was called without arguments: {error}. Name a function without "
                "arguments"
            ) from error
    if not isinstance(model, ModelDesc):
        raise TrainerCommandError(
            f"{module_name}:{name} returns {type(model).__name__}; expected a ModelDesc"
        )
    return model


def add_describe(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "describe",
        help="list a model's variables: name, shape, elements, dtype, and floating-point operations",
        description="Lists the trainable variables of a model, with the floating-point operations of each in "
        "a forward pass to the outputs: for one example if the batch size is unknown, otherwise for one "
        "batch. To list the contents of a checkpoint, use "
        "`python -m towerpack_callbacks checkpoint vars`.",
    )
    add_model(parser)
    parser.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> int:
    with OfflinePredictor(make_config(options, None)) as predictor:
        print(describe_trainable_variables(predictor.graph, predictor.outputs))
    return 0


_FORMATS: dict[str, tuple[str, Callable[[ModelExporter, Path], None]]] = {
    "": ("SavedModel", ModelExporter.export_serving),
    ".pb": ("frozen graph", ModelExporter.export_compact),
    ".tflite": ("LiteRT", ModelExporter.export_lite),
    ".onnx": ("ONNX", ModelExporter.export_onnx),
    ".npz": ("variables", ModelExporter.export_variables),
}

_EXPORT_EPILOG = """\
examples:
  python -m towerpack_trainers export train_log/lenet --model models.lenet:LeNet \\
      --inputs image --outputs probabilities -o exported/lenet/1 -o exported/lenet.tflite
  python -m towerpack_trainers export train_log/gan --model gan:Model --inputs z --outputs gen/image \\
      --ema -o generator.onnx

exit status: 0; 1 with a one-line error message; 2 for wrong arguments; 130 after Ctrl-C"""


def add_export(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "export",
        help="write a trained model as SavedModel, frozen graph, LiteRT, ONNX or .npz",
        description="Builds the model for prediction, restores a checkpoint, and writes the graph from\n"
        "inputs to outputs, in one format or several.",
        epilog=_EXPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trained_model(parser)
    parser.add_argument(
        "--inputs",
        nargs="+",
        metavar="NAME",
        help="inputs or other tensors that are fed (default: the inputs that the outputs depend on)",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=_output,
        action="append",
        metavar="PATH",
        help="file or directory to write; the ending selects the format: none for a SavedModel (a "
        "directory), .pb for a frozen graph, .tflite for LiteRT, .onnx for ONNX (needs the extra [onnx]), "
        ".npz for the values of variables; may be given more than once",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    exporter = ModelExporter(make_config(options, options.inputs), overwrite=options.overwrite)
    bar = show_progress(options.output, "export", "format")
    done = []
    for path in bar:
        name, write = _FORMATS[_ending(path)]
        bar.set_postfix_str(name)
        write(exporter, path)
        done.append(f"{path}: {name}, {_size(path):,} bytes")
    print("\n".join(done))
    return 0


def _ending(path: Path) -> str:
    return path.suffix.lower() if path.suffix.lower() in _FORMATS else ""


def _output(text: str) -> Path:
    path = Path(text)
    # A number after a dot is a version: exported/lenet/1.2 is a directory.
    if path.suffix and path.suffix.lower() not in _FORMATS and not path.suffix[1:].isdigit():
        endings = ", ".join(filter(None, _FORMATS))
        raise argparse.ArgumentTypeError(
            f"expected a name that ends in {endings}, or without an ending; received {text!r}"
        )
    return path


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


_Arrays = dict[str, np.ndarray[Any, Any]]

_PREDICT_EPILOG = """\
examples:
  python -m towerpack_trainers predict train_log/lenet --model models.lenet:LeNet \\
      --inputs image=digits.npy --outputs probabilities -o probabilities.npz
  python -m towerpack_trainers predict train_log/lenet --model models.lenet:LeNet \\
      --inputs digits.npz --outputs probabilities --ema --batch-size 1000

exit status: 0; 1 with a one-line error message; 2 for wrong arguments; 130 after Ctrl-C"""


def add_predict(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "predict",
        help="predict from arrays in .npy and .npz files, to a .npz file",
        description="Builds the model for prediction, restores a checkpoint, feeds arrays batch by batch,\n"
        "and writes the outputs to a NumPy archive, by name.",
        epilog=_PREDICT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trained_model(parser)
    parser.add_argument(
        "--inputs",
        required=True,
        nargs="+",
        type=_input,
        metavar="NAME=FILE",
        help="the array of an input: image=images.npy; image=all.npz for the array of that name in the "
        "archive; or all.npz for all its arrays. The first axis counts examples; a scalar applies to all",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_archive,
        default=Path("predictions.npz"),
        metavar="FILE",
        help="the .npz file to write or replace (default: predictions.npz)",
    )
    parser.add_argument(
        "--batch-size", type=_count, default=256, metavar="N", help="examples in one call (default: 256)"
    )
    parser.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> int:
    arrays = _read(options.inputs)
    count = _number_of_examples(arrays)
    with OfflinePredictor(make_config(options, list(arrays))) as predictor:
        batches = _predict_batches(predictor, list(arrays.values()), count, options.batch_size)
    outputs = {name: _join(name, parts, count) for name, parts in zip(options.outputs, zip(*batches))}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_archive(options.output, outputs)
    except TypeError as error:
        raise TrainerCommandError(str(error)) from error
    print(f"{options.output}: {', '.join(options.outputs)} of {count} examples")
    return 0


def _predict_batches(
    predictor: OfflinePredictor, arrays: Sequence[np.ndarray[Any, Any]], count: int, size: int
) -> list[list[Any]]:
    starts = range(0, count, size) or [0]  # zero examples make one batch, too
    done = []
    for start in show_progress(starts, "predict", "batch"):
        batch = [array[start : start + size] if array.ndim else array for array in arrays]
        try:
            done.append(predictor(*batch))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise TrainerCommandError(
                f"the model rejects these arrays: {str(error).splitlines()[0]}"
            ) from error
    return done


def _join(name: str, parts: Sequence[Any], count: int) -> np.ndarray[Any, Any]:
    """Concatenates the batches of one output. An output without a batch axis is valid for one batch only."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    shapes = {np.shape(part) for part in parts}
    if () in shapes or sum(shape[0] for shape in map(np.shape, parts)) != count:
        raise TrainerCommandError(
            f"the output {name} has no value for each example: its shapes are {sorted(shapes)}. Omit it, or "
            f"predict all examples at once: --batch-size {count}"
        )
    return np.concatenate(parts)


def _number_of_examples(arrays: Mapping[str, np.ndarray[Any, Any]]) -> int:
    counts = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise TrainerCommandError(f"inputs have different numbers of examples: {listed}")
    return next(iter(counts.values()), 1)


def _read(inputs: Sequence[tuple[str | None, Path]]) -> _Arrays:
    arrays: _Arrays = {}
    for name, path in inputs:
        for found, array in _read_file(name, path).items():
            if found in arrays:
                raise TrainerCommandError(f"the input {found} is given twice")
            arrays[found] = array
    return arrays


def _read_file(name: str | None, path: Path) -> _Arrays:
    try:
        if path.suffix == ".npy":
            # Memory-mapped, so that a file may be larger than the memory.
            return {str(name): np.load(path, mmap_mode="r", allow_pickle=False)}
        # NumPy leaves a file open if it is not an archive.
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            if name is not None and name not in archive.files:
                raise TrainerCommandError(f"{path} has no array {name}; it has: {', '.join(archive.files)}")
            return {each: archive[each] for each in (archive.files if name is None else [name])}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise TrainerCommandError(f"{path} cannot be read: {error}") from error


def _input(text: str) -> tuple[str | None, Path]:
    name, equals, file = text.rpartition("=")
    path = Path(file)
    if path.suffix not in {".npy", ".npz"} or (path.suffix == ".npy" and not equals) or (equals and not name):
        raise argparse.ArgumentTypeError(
            f"expected NAME=FILE.npy, NAME=FILE.npz or FILE.npz; received {text!r}"
        )
    return (name or None), path


def _archive(text: str) -> Path:
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .npz; received {text!r}")
    return Path(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1; received {text!r}")
    return int(text)
