"""Checks that type checkers accept the code that users copy: scripts of examples/, and blocks of pages.

`python checks/editors.py pyright PAGE ...` checks like an editor, and `mypy` instead of `pyright` like
`mypy --strict`. The scripts of examples/annotated/ have all annotations; others need none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from source_files import ROOT

sys.path.insert(0, str(ROOT / "docs" / "tests"))
from blocks import PAGES

__all__ = ["Folders", "together", "write_blocks"]

# The scripts of each folder that Python would import from, and not from elsewhere.
Folders = dict[Path, list[Path]]

_ANNOTATED, _KNOWN = ROOT / "examples" / "annotated", ROOT / "checks" / "known_types.py"
_NOT_ANNOTATED = [
    *("--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"),
    "--disable-error-code=var-annotated",
    "--disable-error-code=import-not-found",
    "--disable-error-code=import-untyped",
    "--allow-redefinition",  # as in `flow = BatchData(flow, 32)`
]


def main() -> None:
    """Runs a type checker."""
    checker, *pages = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        scripts = {folder: sorted(folder.glob("*.py")) for folder in _folders(ROOT / "examples")}
        scripts[_KNOWN.parent] = [_KNOWN]
        for page in pages:
            folder = Path(place) / Path(page).resolve().relative_to(ROOT).with_suffix("")
            if written := write_blocks(Path(page), folder):
                scripts[folder] = written
        if checker == "pyright":
            failed = _pyright(scripts)
        else:
            annotated = {_ANNOTATED: scripts.pop(_ANNOTATED)}
            groups = [_mypy(group, *_NOT_ANNOTATED) for group in together(scripts)]
            failed = any([*groups, _mypy(annotated)])
    sys.exit(failed)


def write_blocks(page: Path, folder: Path) -> list[Path]:
    """Writes the Python blocks that a page runs, at the lines that they have in the page.

    Args:
        page: a Markdown file.
        folder: the folder for its scripts. A block with names of its own begins one.
    """
    written: dict[Path, str] = {}
    script = folder
    for example in PAGES.parse(page).examples():
        block = example.parsed
        if block.language != "python" or block.reason:
            continue
        if not block.file and "continuation" not in block.options:
            script = folder / f"{'_'.join([folder.parent.name, folder.name, str(example.line)])}.py"
        path = folder / block.file if block.file else script
        before = written.get(path, "")
        written[path] = before + "\n" * (example.line - before.count("\n")) + block.source
    for path, source in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return list(written)


def together(scripts: Folders) -> Iterator[Folders]:
    """Divides folders into groups in which no two modules have the same name, as mypy requires."""
    left = scripts
    while left:
        group: Folders = {}
        taken: set[Path] = set()
        for folder, paths in left.items():
            names = {path.relative_to(folder) for path in paths}
            if names.isdisjoint(taken):
                group[folder], taken = paths, taken | names
        yield group
        left = {folder: paths for folder, paths in left.items() if folder not in group}


def _folders(top: Path) -> list[Path]:
    return sorted({path.parent for path in top.rglob("*.py")})


def _pyright(scripts: Folders) -> bool:
    listed = "\n".join(str(path) for paths in scripts.values() for path in paths)
    return _fails(["pyright", "-"], input=listed)


def _mypy(scripts: Folders, *options: str) -> bool:
    files = [str(path) for paths in scripts.values() for path in paths]
    env = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, scripts))}
    return _fails(["mypy", "--explicit-package-bases", *options, *files], env=env)


def _fails(command: list[str], **options: Any) -> bool:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, text=True, check=False, **options)
    return done.returncode != 0


if __name__ == "__main__":
    main()
