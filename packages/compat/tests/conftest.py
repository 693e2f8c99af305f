"""Runs code in fresh processes, since `install` changes the process that calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Returns a function that runs a program by `python` with arguments, and returns its output."""

    def run(*arguments: str, code: str | None = None, status: int = 0, **env: str) -> str:
        command = [*arguments] if code is None else ["-c", code, *arguments]
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    return run
