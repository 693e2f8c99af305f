"""`predict`: predicts from arrays in files."""

from __future__ import annotations

import argparse
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.writing import write_archive

from ..predict import OfflinePredictor
from ._model_arguments import CommandError, add_trained_model, make_config, show_progress

__all__ = ["add_predict"]

_Arrays = dict[str, np.ndarray[Any, Any]]

_EPILOG = """\
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
        epilog=_EPILOG,
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
        raise CommandError(str(error)) from error
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
            raise CommandError(f"the model rejects these arrays: {str(error).splitlines()[0]}") from error
    return done


def _join(name: str, parts: Sequence[Any], count: int) -> np.ndarray[Any, Any]:
    """Concatenates the batches of one output. An output without a batch axis is valid for one batch only."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    shapes = {np.shape(part) for part in parts}
    if () in shapes or sum(shape[0] for shape in map(np.shape, parts)) != count:
        raise CommandError(
            f"the output {name} has no value for each example: its shapes are {sorted(shapes)}. Omit it, or "
            f"predict all examples at once: --batch-size {count}"
        )
    return np.concatenate(parts)


def _number_of_examples(arrays: Mapping[str, np.ndarray[Any, Any]]) -> int:
    counts = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise CommandError(f"inputs have different numbers of examples: {listed}")
    return next(iter(counts.values()), 1)


def _read(inputs: Sequence[tuple[str | None, Path]]) -> _Arrays:
    arrays: _Arrays = {}
    for name, path in inputs:
        for found, array in _read_file(name, path).items():
            if found in arrays:
                raise CommandError(f"the input {found} is given twice")
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
                raise CommandError(f"{path} has no array {name}; it has: {', '.join(archive.files)}")
            return {each: archive[each] for each in (archive.files if name is None else [name])}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


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
