"""Holds the public names of the wheels to those that were written down at the last release.

`python -m release.api` fails if a name, an argument or a default that `api/<wheel>.json` has is gone or
different, and the wheel has no fragment of type `breaking` or `deprecated` that names it. `--write` writes
the present public names; `--write layers` those of one wheel.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .compatibility import Breaking, breaking_changes
from .surface import Surface, read_surfaces
from .wheels import ROOT, WHEELS, package_of

__all__ = ["committed", "main", "unannounced", "write"]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Compares, or writes; returns the exit status."""
    if arguments[:1] not in ([], ["--write"]) or not set(arguments[1:]) <= set(WHEELS):
        print(f"usage: python -m release.api [--write [WHEEL ...]], received {arguments}", file=sys.stderr)
        return 2
    surfaces = read_surfaces(root)
    if arguments:
        for wheel in arguments[1:] or WHEELS:
            write(wheel, surfaces[wheel], root)
        return 0
    older, newer = _joined(committed(wheel, root) for wheel in WHEELS), _joined(surfaces.values())
    found = breaking_changes(older, newer)
    silent = list(unannounced(found, root))
    for each in found:
        print(f"{'BREAKING' if each in silent else 'announced'}  {each}")
    new = newer.keys() - older.keys()
    print(f"{len(newer)} public names, {len(new)} of them new, {len(found)} breaking changes")
    if silent:
        print(
            f"{len(silent)} of them have no fragment: restore them, or write what users shall do instead,"
            " with the name, to packages/<wheel>/changes/<words>.breaking.md",
            file=sys.stderr,
        )
    return int(bool(silent))


def committed(wheel: str, root: Path = ROOT) -> Surface:
    """Returns the surface that is written down; an empty one if there is no file."""
    path = _file(wheel, root)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(wheel: str, surface: Surface, root: Path = ROOT) -> Path:
    """Writes a surface down, and returns the file."""
    path = _file(wheel, root)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(surface, indent=0) + "\n", encoding="utf-8")
    return path


def unannounced(changes: Iterable[Breaking], root: Path = ROOT) -> Iterator[Breaking]:
    """Yields those changes that no fragment of type `breaking` or `deprecated` of their wheel names.

    A deprecated name works by an alias, which the surface does not show.
    """
    words = {package_of(wheel): _words(wheel, root) for wheel in WHEELS}
    for change in changes:
        if change.short_name not in words[change.name.partition(".")[0]]:
            yield change


def _words(wheel: str, root: Path) -> set[str]:
    fragments = (root / "packages" / wheel / "changes").glob("*.md")
    fragments = [path for path in fragments if path.name.endswith((".breaking.md", ".deprecated.md"))]
    return {word for path in fragments for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def _joined(surfaces: Iterable[Surface]) -> Surface:
    return {name: line for surface in surfaces for name, line in surface.items()}


def _file(wheel: str, root: Path) -> Path:
    return root / "api" / f"{wheel}.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
