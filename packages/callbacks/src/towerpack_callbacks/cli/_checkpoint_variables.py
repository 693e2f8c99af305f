"""`checkpoint vars` and `checkpoint export`: lists variables, and writes them to a NumPy archive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import load_variables
from ..writing import write_archive
from ._command_line import CommandError, align

__all__ = ["export", "list_variables"]

_Variables = dict[str, np.ndarray[Any, Any]]


def list_variables(source: Path, patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """Returns a line for each variable with a matching name, or for all without patterns.

    A line has the name, the shape, the dtype and the number of elements. The last line has the totals.

    Raises:
        CommandError: there is no checkpoint, or no name matches.
        CheckpointError: the checkpoint cannot be read.
    """
    chosen = _choose(source, patterns)
    rows = [
        [name, f"[{', '.join(map(str, array.shape))}]", _dtype(array), f"{array.size:,}"]
        for name, array in chosen.items()
    ]
    table = align([["name", "shape", "dtype", "parameters"], *rows], right=(3,))
    total = sum(array.size for array in chosen.values())
    size = sum(array.nbytes for array in chosen.values())
    return [*table, f"{len(chosen)} variables, {total:,} parameters, {size / 2**20:.2f} MiB"]


def export(source: Path, target: Path, patterns: Sequence[re.Pattern[str]]) -> tuple[int, int]:
    """Writes the variables with a matching name, or all without patterns.

    Types that NumPy does not have, such as bfloat16, become float32.

    Returns:
        The number of variables written, and the size of the archive in bytes.

    Raises:
        CommandError: there is no checkpoint, no name matches, or a variable is not numeric.
        CheckpointError: the checkpoint cannot be read.
    """
    chosen = _choose(source, patterns)
    texts = [name for name, array in chosen.items() if array.dtype.kind == "O"]
    if texts:
        raise CommandError(
            f"variable {texts[0]} holds text, which an archive cannot store; exclude it with --keys"
        )
    write_archive(target, chosen)
    return len(chosen), target.stat().st_size


def _choose(source: Path, patterns: Sequence[re.Pattern[str]]) -> _Variables:
    if not source.exists() and not source.with_name(f"{source.name}.index").exists():
        raise CommandError(f"there is no checkpoint {source}")
    variables = load_variables(source)
    chosen = {
        name: array
        for name, array in sorted(variables.items())
        if not patterns or any(pattern.search(name) for pattern in patterns)
    }
    if not chosen:
        wanted = ", ".join(repr(pattern.pattern) for pattern in patterns) or "anything"
        raise CommandError(
            f"no variable matches {wanted}; there are: {', '.join(sorted(variables)) or 'none'}"
        )
    return chosen


def _dtype(array: np.ndarray[Any, Any]) -> str:
    return "string" if array.dtype.kind in "OSU" else array.dtype.name
