"""`export`: writes a trained model in the formats of other programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..export import ModelExporter
from ._model_arguments import add_trained_model, make_config, show_progress

__all__ = ["add_export"]

_FORMATS: dict[str, tuple[str, Callable[[ModelExporter, Path], None]]] = {
    "": ("SavedModel", ModelExporter.export_serving),
    ".pb": ("frozen graph", ModelExporter.export_compact),
    ".tflite": ("LiteRT", ModelExporter.export_lite),
    ".onnx": ("ONNX", ModelExporter.export_onnx),
    ".npz": ("variables", ModelExporter.export_variables),
}

_EPILOG = """\
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
        epilog=_EPILOG,
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
