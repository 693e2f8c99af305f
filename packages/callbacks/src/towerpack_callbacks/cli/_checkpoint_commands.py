"""`checkpoint ls|vars|diff|export`: lists checkpoints, and parses the arguments of all four."""

from __future__ import annotations

import argparse
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .._errors import CheckpointError
from ..checkpoint.format import (
    disk_usage,
    files_below,
    is_complete,
    is_unfinished,
    pointers_in,
    readable_size,
    wrong_file,
)
from ._command_line import CheckpointCommandError, align, regex

__all__ = ["add_checkpoint", "list_checkpoints"]


_STEP = re.compile(r"-(\d+)$")
_MODEL = re.compile(r"model-\d+")

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
    print("\n".join(list_checkpoints(options.log_dir, options.verify)))


def _list_variables(options: argparse.Namespace) -> None:
    from ._checkpoint_contents import list_variables

    print("\n".join(list_variables(options.checkpoint, options.keys)))


def _diff(options: argparse.Namespace) -> None:
    from ._checkpoint_contents import difference

    print("\n".join(difference(options.first, options.second)))


def _export(options: argparse.Namespace) -> None:
    from ._checkpoint_contents import export

    path = options.output or Path("variables.npz")
    count, size = export(options.checkpoint, path, options.keys)
    print(f"{path}: {count} variables, {size:,} bytes")


def _archive(text: str) -> Path:
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .npz, received {text!r}")
    return Path(text)


def list_checkpoints(log_dir: Path, verify: bool) -> list[str]:
    """Returns the lines of the listing, the headings first.

    Args:
        log_dir: a log directory, or one checkpoint.
        verify: whether to also read the files.

    Raises:
        CheckpointCommandError: the directory does not exist, or contains no checkpoint.
    """
    if not log_dir.is_dir():
        raise CheckpointCommandError(f"there is no directory {log_dir}")
    found = [log_dir] if is_complete(log_dir) else sorted(_candidates(log_dir), key=_order)
    if not found:
        raise CheckpointCommandError(
            f"{log_dir} contains no checkpoint; expected directories such as model-1000"
        )
    marks = _marks(found[0].parent)
    headings = ["checkpoint", "step", "size", "written", "state", "marks"]
    rows = [
        [
            path.name,
            _step(path),
            readable_size(sum(_sizes([path]).values())),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime)),
            _state(path, verify),
            ", ".join(sorted(marks[path.resolve()])),
        ]
        for path in found
    ]
    return [*align([headings, *rows], right=(1, 2)), *_together(found)]


def _candidates(log_dir: Path) -> Iterator[Path]:
    """Finds checkpoints under any name, including unfinished ones."""
    for path in log_dir.iterdir():
        if path.is_dir() and not path.is_symlink():
            named_like_one = _MODEL.fullmatch(path.name) or is_unfinished(path)
            if named_like_one or is_complete(path):
                yield path


def _order(path: Path) -> tuple[bool, int, str]:
    step = _step(path)
    return is_unfinished(path), int(step) if step else -1, path.name


def _step(path: Path) -> str:
    match = _STEP.search(path.resolve().name)
    return match[1] if match and not is_unfinished(path) else ""


def _marks(log_dir: Path) -> dict[Path, list[str]]:
    """Returns the pointers to each checkpoint: `latest`, `max-<statistic>`, and those of users."""
    marks = defaultdict(list)
    for path, target in pointers_in(log_dir).items():
        marks[target].append(path.name)
    return marks


def _state(path: Path, verify: bool) -> str:
    if is_unfinished(path):
        return "unfinished"
    wrong = wrong_file(path)
    if wrong is not None:
        return f"incomplete: {wrong}"
    if not verify:
        return "complete"
    from ..checkpoint import read_checkpoint  # with TensorFlow, which takes seconds to import

    try:
        read_checkpoint(path)
    except CheckpointError:
        return "damaged"
    return "verified"


def _sizes(paths: Iterable[Path]) -> dict[tuple[int, int], int]:
    """Returns the sizes of all files in directories; files with several names count once."""
    sizes = {}
    for path in paths:
        for file in files_below(path):
            # A running training may remove a file between its listing and this call.
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sizes


def _together(found: Sequence[Path]) -> Iterator[str]:
    """Yields the total disk usage of checkpoints if it is less than the sum of their sizes."""
    if len(_sizes(found)) < sum(len(_sizes([path])) for path in found):
        yield f"{readable_size(disk_usage(found))} on the disk in total, since some share files"
