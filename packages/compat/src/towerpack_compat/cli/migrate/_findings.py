"""What the rewriting of a script gathers on its way: imports that it will need, and names that stay."""

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
        kept: names of the statement that stay as they are.
    """

    names: set[tuple[str, str, str]] = attrs.Factory(set)
    kept: set[str] = attrs.Factory(set)


@final
class Findings:
    """What one walk through a script has found.

    Attributes:
        imports: what stands in the place of each import statement.
        marks: comments above statements that will not work.
        unequal: names of Tensorpack with a use that Towerpack has no equal for: each of their uses stays.
        needs_install: whether the script needs what `towerpack_compat.install` puts in place.
        has_old_methods: whether methods of flows are left that have other names now.
    """

    def __init__(self) -> None:
        self.imports: dict[cst.CSTNode, NewImports] = defaultdict(NewImports)
        self.marks: dict[cst.CSTNode, dict[str, None]] = defaultdict(dict)
        self.unequal: set[str] = set()
        self.needs_install = False
        self.has_old_methods = False
        self._statements: list[cst.CSTNode] = []

    def is_like(self, other: Findings) -> bool:
        """Returns whether a walk that knows what `other` found would write the same."""
        flags = [(each.needs_install, each.has_old_methods) for each in (self, other)]
        imports = [
            {node: new for node, new in each.imports.items() if new != NewImports()} for each in (self, other)
        ]
        return flags[0] == flags[1] and imports[0] == imports[1]

    def merge_imports(self, leading: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        """Moves what statements need to the statements that import for them."""
        for statement, leader in leading.items():
            self.imports[leader].names |= self.imports[statement].names
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
