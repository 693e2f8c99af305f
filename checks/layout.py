"""Checks that the folders show the architecture: names, docstrings, doors, tests that mirror them.

`python checks/layout.py` prints one line for each finding and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from source_files import ROOT, WHEELS, Module, modules, report, test_files

sys.path.insert(0, str(ROOT))
from release.wheels import PUBLIC_MODULES

# Names that every wheel or command has, with the same meaning.
_SAME_EVERYWHERE = {"__init__", "__main__", "_errors", "testing", "_argument_checks"}
_SAYS_NOTHING = re.compile(r"^_?(utils?|common|misc|helpers?|base\d*|tools?|stuff|core)$")
_PRIVATE_IMPORT = re.compile(
    r"^\s*from towerpack_\w+(\.\w+)*\.?\b_(?!_main__)\w+ import|^\s*from towerpack_[\w.]+ import .*\b_[a-z]",
    re.MULTILINE,
)
_MOST_PRIVATE = 0.1
# Lazy, so that a command that reads one name imports no TensorFlow.
_LAZY = "checkpoint.format"


def main() -> None:
    """Runs all checks."""
    parsed = list(modules())
    report(chain(_names(parsed), _folders(), _mirrors(), _front_doors(), _inner_doors(parsed)))


def _names(parsed: list[Module]) -> Iterator[str]:
    by_name = defaultdict(list)
    for module in parsed:
        if "towerpack_compat/tensorpack/" not in module.at():  # Tensorpack gives those names
            by_name[module.path.stem].append(module)
        if _SAYS_NOTHING.match(module.path.stem):
            yield f"{module.at()}: the name does not say what is in the file."
    for name, same in by_name.items():
        if len(same) > 1 and name not in _SAME_EVERYWHERE:
            yield f"{name}.py is the name of several files: {', '.join(module.at() for module in same)}"


def _folders() -> Iterator[str]:
    """Each folder's `__init__` describes the concept of the folder."""
    for wheel in WHEELS:
        top = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
        for folder in (path for path in top.rglob("*") if path.is_dir() and path.name != "__pycache__"):
            face = folder / "__init__.py"
            if not (face.exists() and ast.get_docstring(ast.parse(face.read_text(encoding="utf-8")))):
                yield f"{folder.relative_to(ROOT)}: its __init__ has no docstring that names its concept."


def _mirrors() -> Iterator[str]:
    """Tests are in the folder of the tested module."""
    for wheel in WHEELS:
        sources = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
        tests = ROOT / "packages" / wheel / "tests"
        for folder in (path for path in tests.iterdir() if path.is_dir()):
            found = (sources / folder.name).is_dir() or (sources / f"{folder.name}.py").exists()
            if list(folder.glob("test_*.py")) and not found:
                yield f"{folder.relative_to(ROOT)}: the wheel has no folder or module {folder.name!r}."


def _front_doors() -> Iterator[str]:
    files = list(test_files())
    private = [file for file in files if _PRIVATE_IMPORT.search(file.read_text(encoding="utf-8"))]
    if len(private) > _MOST_PRIVATE * len(files):
        yield f"{len(private)} of {len(files)} test files import a private module, at most a tenth may:"
        yield from (f"    {file.relative_to(ROOT)}" for file in private)


def _inner_doors(parsed: list[Module]) -> Iterator[str]:
    """Code of a wheel imports a name from the file that defines it, unless its folder is public."""
    for module in (each for each in parsed if each.wheel != "compat"):  # its folders are Tensorpack's
        package = module.path.parts.index(f"towerpack_{module.wheel}") + 1
        doors = {*PUBLIC_MODULES[module.wheel], _LAZY, ""}
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or module.is_face:
                continue
            folder = module.path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            names = [each.name for each in node.names if not any(folder.glob(f"{each.name}*"))]
            if folder.is_dir() and names and ".".join(folder.parts[package:]) not in doors:
                yield f"{module.at(node)}: import {', '.join(names)} from the file that defines it."


if __name__ == "__main__":
    main()
