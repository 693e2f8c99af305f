"""`python -m towerpack_dataflow convert` and `inspect`: convert and inspect files of datapoints."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..flow._tree_fingerprint import known_length
from ..storage import open_url, printable
from ._file_formats import FILE_HELP, format_of
from ._state_commands import CommandError

__all__ = ["add_files"]


def add_files(commands: Any) -> None:
    """Adds `convert` and `inspect` to a parser's sub-commands."""
    convert = commands.add_parser(
        "convert",
        help="write the datapoints of a file in another format",
        description=f"The file extensions select the formats: {FILE_HELP}.",
    )
    convert.add_argument("source", metavar="SOURCE", help="path or URL of a file")
    convert.add_argument("target", metavar="TARGET", help="path of a new file")
    convert.add_argument(
        "--plain",
        action="store_true",
        help="write arrays and tuples as lists, and NumPy numbers as plain ones, to CSV and JSON Lines",
    )
    convert.set_defaults(run=_convert)
    inspect = commands.add_parser("inspect", help="print a summary of a file of datapoints")
    inspect.add_argument("file", metavar="FILE", help=f"path or URL; formats by extension: {FILE_HELP}")
    inspect.set_defaults(run=_inspect)


def _convert(options: argparse.Namespace) -> int:
    source, target = format_of(options.source), format_of(options.target)
    if target.write is None:
        raise CommandError(f"{options.target}: files of {target.name} can be read, but not written")
    if os.path.exists(options.target):
        raise CommandError(f"{options.target} exists; remove it, or use another name")
    flow = _opened(options.source)
    write = target.write_plain if options.plain else target.write
    if write is None:
        raise CommandError(f"--plain is for CSV and JSON Lines; {target.name} has separate types")
    write(flow, options.target)
    length = known_length(flow)
    print(f"{options.target}: {length} datapoints of {source.name} as {target.name}")
    return 0


def _inspect(options: argparse.Namespace) -> int:
    flow = _opened(options.file)
    length = known_length(flow)
    known = format_of(options.file)
    print(f"format      {known.name}")
    if known.version is not None:
        version = known.version(options.file)
        print(f"version     {'none: another program wrote it' if version is None else version}")
    if os.path.isfile(options.file) or "://" in options.file:
        with open_url(options.file) as file:
            print(f"bytes       {file.size:,}")
    print(f"datapoints  {length:,}" if length is not None else "datapoints  unknown")
    first = next(iter(flow), None)
    if first is not None:
        print(f"first       {type(first).__name__}")
        for name, value in _components(first):
            print(f"  {name}: {_described(value)}")
    return 0


def _opened(path: str) -> Any:
    try:
        return format_of(path).read(path)
    except OSError as error:
        raise CommandError(f"{printable(path)} cannot be read: {error}") from error


def _components(datapoint: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(datapoint, dict):
        yield from datapoint.items()
    elif isinstance(datapoint, (list, tuple)):
        yield from enumerate(datapoint)
    else:
        yield "value", datapoint


def _described(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}, shape {np.shape(value)}"
    if isinstance(value, (bytes, str)):
        return f"{type(value).__name__} of length {len(value)}"
    return f"{type(value).__name__} {value!r:.60}"
