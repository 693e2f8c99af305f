"""What the rewriting of a script gathers on its way: imports that it will need, and work for a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import final

import attrs
import libcst as cst

__all__ = ["MARK", "PAGE", "Findings", "NewImports", "mark_of"]

PAGE = "docs/migrating-from-tensorpack.md"
MARK = "# TODO(towerpack): "


@final
@attrs.define
class NewImports:
    """What stands in the place of one import statement.

    Args:
        names: names to import: from which module, and as what, where that is another name; a name that is
            empty stands for the module itself.
        lines: statements behind the imports.
        kept: names of the statement that stay as they are.
    """

    names: set[tuple[str, str, str]] = attrs.Factory(set)
    lines: set[str] = attrs.Factory(set)
    kept: set[str] = attrs.Factory(set)


@final
class Findings:
    """What one walk through a script has found."""

    def __init__(self) -> None:
        self.imports: dict[cst.CSTNode, NewImports] = defaultdict(NewImports)
        self.marks: dict[cst.CSTNode, dict[str, None]] = defaultdict(dict)
        self._statements: list[cst.CSTNode] = []

    def merge_imports(self, leading: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        """Moves what statements need to the statements that import for them."""
        for statement, leader in leading.items():
            self.imports[leader].names |= self.imports[statement].names
            self.imports[leader].lines |= self.imports[statement].lines
            self.imports[statement] = NewImports(kept=self.imports[statement].kept)

    def enter(self, statement: cst.CSTNode) -> None:
        """Notes that a statement is being walked through."""
        self._statements.append(statement)

    def leave(self) -> None:
        """Notes that the statement has been walked through."""
        self._statements.pop()

    def mark(self, text: str, section: str) -> None:
        """Adds a comment above the statement that is being walked through."""
        self.marks[self._statements[-1]][mark_of(text, section)] = None


def mark_of(text: str, section: str) -> str:
    """Returns the comment that marks work for a person, and names the section about it."""
    return f"{MARK}{text}: {PAGE}{section}"
