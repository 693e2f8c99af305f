"""Makes the sections of the wheels' changelogs, from fragments, by towncrier.

A section is made of the wheel's fragments, which are removed then. One called `## 0.2.0 (unreleased)` that is
there already becomes the end of that of 0.2.0.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from .wheels import ROOT

__all__ = ["fragment_types", "fragments", "has_entry", "misnamed", "write_section"]

_CONFIG = ROOT / "release" / "towncrier.toml"
_NAME = re.compile(r"[\w-]+\.(\w+)\.md")


def fragment_types() -> list[str]:
    """Returns the types that a fragment may have."""
    configured = tomllib.loads(_CONFIG.read_text(encoding="utf-8"))["tool"]["towncrier"]["type"]
    return [each["directory"] for each in configured]


def fragments(wheel: str, root: Path = ROOT) -> dict[Path, str]:
    """Returns the fragments of a wheel with their types; `""` for a name that says none."""
    found = sorted(_folder(wheel, root).glob("*"))
    return {path: _type_of(path) for path in found if path.name != "README.md"}


def misnamed(wheel: str, root: Path = ROOT) -> list[str]:
    """Returns one sentence for each fragment with a name that towncrier does not support."""
    types = fragment_types()
    return [
        f"{path.relative_to(root)} is called neither <words>.{'.md, <words>.'.join(types)}.md"
        for path, kind in fragments(wheel, root).items()
        if kind not in types
    ]


def has_entry(wheel: str, version: str, root: Path = ROOT) -> bool:
    """Returns whether the changelog of a version has content: fragments, or an existing section."""
    text = _changelog(wheel, root).read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(version)} \(.+\)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    return bool(fragments(wheel, root)) or bool(section and section[1].strip())


def write_section(wheel: str, version: str, root: Path = ROOT, date: datetime.date | None = None) -> None:
    """Writes the section of a version and removes its fragments, in files and in git's index.

    Args:
        wheel: the wheel's short name.
        version: the version to release.
        root: the working tree of a git repository.
        date: the day of the release, or today.
    """
    day = (date or datetime.datetime.now(datetime.UTC).date()).isoformat()
    unreleased, released = f"## {version} (unreleased)\n", f"## {version} ({day})\n"
    changelog = _changelog(wheel, root)
    if fragments(wheel, root):
        where = ["--config", str(_CONFIG), "--dir", str(root / "packages" / wheel)]
        what = ["--name", f"towerpack-{wheel}", "--version", version, "--date", day, "--yes"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}  # where the template's package is found
        command = [sys.executable, "-m", "towncrier", "build", *where, *what]
        subprocess.run(command, check=True, cwd=root, env=env, capture_output=True)
        text = changelog.read_text(encoding="utf-8").replace(f"{unreleased}\n", "")
    else:
        text = changelog.read_text(encoding="utf-8").replace(unreleased, released)
    changelog.write_text(text, encoding="utf-8")


def _type_of(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match[1] if match else ""


def _folder(wheel: str, root: Path) -> Path:
    return root / "packages" / wheel / "changes"


def _changelog(wheel: str, root: Path) -> Path:
    return root / "packages" / wheel / "CHANGELOG.md"
