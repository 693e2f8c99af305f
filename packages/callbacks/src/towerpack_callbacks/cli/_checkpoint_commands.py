"""`checkpoint ls|vars|diff|export`: lists checkpoints and their variables, compares and exports them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ._command_line import regex

__all__ = ["add_checkpoint"]

_WHERE = "a checkpoint, or a log directory, for its latest checkpoint"
_ANY = f"{_WHERE}; or a TensorFlow checkpoint, a .npz file, a .caffemodel"


def add_checkpoint(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser("checkpoint", help="list, compare and export checkpoints")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_list(actions)
    _add_variables(actions)
    _add_diff(actions)
    _add_export(actions)


def _add_list(actions: Any) -> None:
    listing = actions.add_parser(
        "ls",
        help="list checkpoints with step, size, completeness, and the names latest and best",
        description="Lists checkpoints by increasing step, and unfinished ones that a killed run has left.",
    )
    listing.add_argument("log_dir", metavar="LOGDIR", type=Path, help="log directory of a run")
    listing.add_argument(
        "--verify", action="store_true", help="read all files and compare checksums, not only their sizes"
    )
    listing.set_defaults(run=_list)


def _add_variables(actions: Any) -> None:
    variables = actions.add_parser(
        "vars",
        help="list variables with name, shape, dtype and number of parameters, and the total",
        description="Lists variables by name, including those of the optimizer. A checkpoint does not "
        "contain the model's computation: `python -m towerpack_trainers describe` lists its "
        "floating-point operations.",
    )
    variables.add_argument("checkpoint", metavar="PATH", type=Path, help=_ANY)
    _add_keys(variables)
    variables.set_defaults(run=_list_variables)


def _add_diff(actions: Any) -> None:
    diff = actions.add_parser(
        "diff",
        help="compare two checkpoints",
        description="Compares variables (names, shapes, dtypes, largest absolute difference) and the states "
        "of loop, callbacks and input.",
    )
    diff.add_argument("first", metavar="A", type=Path, help=_WHERE)
    diff.add_argument("second", metavar="B", type=Path, help=_WHERE)
    diff.set_defaults(run=_diff)


def _add_export(actions: Any) -> None:
    exporting = actions.add_parser(
        "export",
        help="write variables to a NumPy archive",
        description="Writes variables to a .npz archive, by name; np.load reads it.",
    )
    exporting.add_argument("checkpoint", metavar="LOGDIR", type=Path, help=_ANY)
    exporting.add_argument(
        "-o", "--output", type=_archive, metavar="FILE", help="a .npz file (default: variables.npz)"
    )
    _add_keys(exporting)
    exporting.set_defaults(run=_export)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys",
        type=regex,
        action="append",
        default=[],
        metavar="REGEX",
        help="only variables with a name that matches; may be given more than once (default: all)",
    )


# Each command imports its code when it runs: reading variables needs TensorFlow, which takes seconds to
# import.


def _list(options: argparse.Namespace) -> None:
    from ._checkpoint_list import list_checkpoints

    print("\n".join(list_checkpoints(options.log_dir, options.verify)))


def _list_variables(options: argparse.Namespace) -> None:
    from ._checkpoint_variables import list_variables

    print("\n".join(list_variables(options.checkpoint, options.keys)))


def _diff(options: argparse.Namespace) -> None:
    from ._checkpoint_diff import difference

    print("\n".join(difference(options.first, options.second)))


def _export(options: argparse.Namespace) -> None:
    from ._checkpoint_variables import export

    path = options.output or Path("variables.npz")
    count, size = export(options.checkpoint, path, options.keys)
    print(f"{path}: {count} variables, {size:,} bytes")


def _archive(text: str) -> Path:
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .npz, received {text!r}")
    return Path(text)
