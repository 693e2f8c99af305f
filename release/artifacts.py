"""Builds the files of a release, checks them, and lists the components of an installation.

uv, twine and CycloneDX's tool do the work, in versions that `tools.txt` pins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .wheels import WHEELS

__all__ = ["build", "check", "leave_out_local_places", "write_sbom"]


def build(place: Path, out: Path) -> None:
    """Builds sdist and wheel of all wheels of a tree into a folder, each wheel from its sdist."""
    for wheel in WHEELS:
        pinned = ["--build-constraints", str(place / "tools.txt")]
        project = str(place / "packages" / wheel)
        _run("uv", "build", "--quiet", "--no-create-gitignore", *pinned, "--out-dir", str(out), project)


def check(wheel: str, version: str, out: Path) -> list[Path]:
    """Returns the files of a release, after a check that package indices take them."""
    stem = f"towerpack_{wheel}-{version}"
    files = [out / f"{stem}.tar.gz", out / f"{stem}-py3-none-any.whl"]
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
    return files


def write_sbom(wheel: str, version: str, place: Path, out: Path) -> Path:
    """Writes the components of a fresh installation of a wheel, with versions and licences, as CycloneDX.

    Args:
        wheel: the wheel's short name.
        version: its version.
        place: the tree that it is built from.
        out: the folder with all built wheels, which no index is asked for.

    Returns:
        The file, which lies beside the wheel and is named as the wheel is.
    """
    stem = f"towerpack_{wheel}-{version}"
    environment, file = out / f"environment-{wheel}", out / f"{stem}.cdx.json"
    constraints = out / "built.txt"
    constraints.write_text("".join(f"{_name(path)} @ {path.as_uri()}\n" for path in out.glob("*.whl")))
    python = str(environment / "bin" / "python")
    _run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment))
    wanted = [f"towerpack-{wheel}=={version}", "--constraints", str(constraints)]
    _run("uv", "pip", "install", "--quiet", "--no-config", "--python", python, *wanted)
    about = ["--pyproject", str(place / "packages" / wheel / "pyproject.toml"), "--mc-type", "library"]
    form = ["--output-reproducible", "--of", "JSON", "--output-file", str(file)]
    _run(sys.executable, "-m", "cyclonedx_py", "environment", *about, *form, python)
    leave_out_local_places(file)
    return file


def leave_out_local_places(file: Path) -> None:
    """Takes out of a CycloneDX file where its siblings lay when it was made, which is nothing to users."""
    listed = json.loads(file.read_text(encoding="utf-8"))
    for component in listed["components"]:
        references = component.get("externalReferences", [])
        component["externalReferences"] = [each for each in references if not each["url"].startswith("file:")]
    file.write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _name(wheel: Path) -> str:
    return wheel.name.partition("-")[0].replace("_", "-")


def _run(*command: str) -> None:
    # uv creates separate environments for builds and for the list of installed packages.
    of_session = ("UV_PYTHON", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    env = {name: value for name, value in os.environ.items() if name not in of_session}
    subprocess.run(command, check=True, env=env)
