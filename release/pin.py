"""Writes the newest versions of all tools into `tools.txt`; `nox -s "release(pin)"` runs it."""

from __future__ import annotations

import subprocess
import tomllib

from .wheels import ROOT

__all__ = ["main"]

# Needed by the wheels themselves, whose versions stay open for the newest and for the lowest; most are
# needed by TensorFlow as well as by the tools, and TensorFlow decides on their versions.
OPEN = (
    "absl-py",
    "attrs",
    "flatbuffers",
    "h5py",
    "keras",
    "ml-dtypes",
    "namex",
    "numpy",
    "opt-einsum",
    "optree",
    "protobuf",
    "scipy",
    "tqdm",
)


def main() -> None:
    """Compiles the groups of tools of pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    wanted = [arg for group in groups for arg in ("--group", group)]
    left = [arg for name in OPEN for arg in ("--no-emit-package", name)]
    form = ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command = ["uv", "pip", "compile", "--quiet", "--upgrade", *form, *left, *wanted, "-o", "tools.txt"]
    subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
