"""`checkpoint export`: writes variables to a NumPy archive."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..checkpoint import load_variables
from ..writing import atomic_write
from ._command_line import CommandError

__all__ = ["export"]


def export(source: Path, target: Path, patterns: Sequence[re.Pattern[str]]) -> tuple[int, int]:
    """Writes variables in whose name a pattern is found, or all if there are no patterns.

    Types that NumPy does not have, such as bfloat16, become float32.

    Returns:
        How many were written, and the size of the archive in bytes.

    Raises:
        CommandError: there is nothing to read, no name matches, or a variable is no number.
        CheckpointError: the checkpoint cannot be read.
    """
    if not source.exists() and not source.with_name(f"{source.name}.index").exists():
        raise CommandError(f"there is no checkpoint {source}")
    variables = load_variables(source)
    chosen = {
        name: array
        for name, array in sorted(variables.items())
        if not patterns or any(pattern.search(name) for pattern in patterns)
    }
    if not chosen:
        wanted = ", ".join(repr(pattern.pattern) for pattern in patterns)
        raise CommandError(
            f"no variable matches {wanted}; there are: {', '.join(sorted(variables)) or 'none'}"
        )
    with atomic_write(target) as aside:
        _write(aside, chosen)
    return len(chosen), target.stat().st_size


def _write(path: Path, variables: dict[str, np.ndarray]) -> None:
    # Not by np.savez, which takes names as keyword arguments: a variable may be called "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in variables.items():
            if array.dtype.kind == "O":
                raise CommandError(
                    f"variable {name} holds text, which an archive cannot; leave it out by --keys"
                )
            if array.dtype.isbuiltin != 1:
                array = array.astype(np.float32)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
