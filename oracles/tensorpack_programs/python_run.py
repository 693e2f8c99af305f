"""Runs a command of Python in a folder, and says how it ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["run_python"]

LONGEST_SECONDS = 1800
MODULES = Path(__file__).parent / "modules"


def run_python(
    command: list[str], place: Path, data: Path, settings: Mapping[str, str], output: Path | None = None
) -> str:
    """Runs a command of Python, and returns its last line if it fails, else "".

    Args:
        command: the arguments of the interpreter.
        place: the folder that it runs in.
        data: `$TENSORPACK_DATASET`.
        settings: further environment variables; those on PYTHONPATH come first.
        output: the file of what it prints; `output.txt` in `place` by default.
    """
    output = output or place / "output.txt"
    paths = [settings.get("PYTHONPATH"), str(MODULES), os.environ.get("PYTHONPATH")]
    settings = {
        "TENSORPACK_DATASET": str(data),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "MPLBACKEND": "agg",
        **settings,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with open(output, "w") as file:
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=place,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {LONGEST_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = output.read_text(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)), lines[-1]
    )[:160]
