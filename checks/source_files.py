"""The files that the checks read, and how they report."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["ROOT", "WHEELS", "Module", "modules", "report", "test_files"]

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")


class Module:
    """One source file of a wheel, parsed.

    Attributes:
        path: where the file is.
        wheel: the wheel's short name.
        lines: its lines.
        tree: its syntax tree.
    """

    def __init__(self, wheel: str, path: Path) -> None:
        self.wheel = wheel
        self.path = path
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        self.tree = ast.parse(text)

    @property
    def is_face(self) -> bool:
        """Whether the file is the `__init__` of a folder."""
        return self.path.name == "__init__.py"

    def at(self, node: ast.AST | None = None) -> str:
        """Returns the place of a node as `path:line`, relative to the root."""
        line = "" if node is None else f":{getattr(node, 'lineno', 1)}"
        return f"{self.path.relative_to(ROOT)}{line}"


def modules() -> Iterator[Module]:
    """Yields every source file of the five wheels."""
    for wheel in WHEELS:
        for path in sorted((ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}").rglob("*.py")):
            yield Module(wheel, path)


def test_files() -> Iterator[Path]:
    """Yields every test file of the wheels and of the integration tests."""
    for folder in [*(ROOT / "packages" / wheel / "tests" for wheel in WHEELS), ROOT / "integration_tests"]:
        yield from sorted(folder.rglob("test_*.py"))


def report(findings: Iterable[str]) -> None:
    """Prints findings and ends the program: with status 1 if there is one."""
    found = list(findings)
    print("\n".join(found) if found else "nothing found")
    sys.exit(bool(found))
