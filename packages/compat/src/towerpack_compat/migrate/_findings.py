"""Results of a walk through a script: required imports, and names that stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import final

import attrs
import libcst as cst

from .._errors import page

__all__ = ["MARK", "Findings", "NewImports"]

MARK = "# TODO(towerpack): "


@final
@attrs.define
class NewImports:
    """The replacement of one import statement.

    Args:
        names: names to import, each with its module and an optional alias; an empty name is the module.
        kept: names of the statement that stay unchanged.
    """

    names: set[tuple[str, str, str]] = attrs.Factory(set)
    kept: set[str] = attrs.Factory(set)


@final
class Findings:
    """The results of one walk through a script.

    Attributes:
        imports: the replacement of each import statement.
        marks: comments above statements that will not work.
        unequal: names of Tensorpack with a use that has no equivalent in Towerpack; all their uses stay.
        needs_install: whether the script needs a call of `towerpack_compat.install`.
        has_old_methods: whether methods of flows keep old names.
    """

    def __init__(self) -> None:
        self.imports: dict[cst.CSTNode, NewImports] = defaultdict(NewImports)
        self.marks: dict[cst.CSTNode, dict[str, None]] = defaultdict(dict)
        self.unequal: set[str] = set()
        self.needs_install = False
        self.has_old_methods = False
        self._statements: list[cst.CSTNode] = []

    def is_like(self, other: Findings) -> bool:
        """Returns whether a walk that starts with the results of `other` would write the same source."""
        flags = [(each.needs_install, each.has_old_methods) for each in (self, other)]
        imports = [
            {node: new for node, new in each.imports.items() if new != NewImports()} for each in (self, other)
        ]
        return flags[0] == flags[1] and imports[0] == imports[1]

    def merge_imports(self, leading: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        """Moves the imports of statements to the statements that import for them."""
        for statement, leader in leading.items():
            self.imports[leader].names |= self.imports[statement].names
            self.imports[statement] = NewImports(kept=self.imports[statement].kept)

    def enter(self, statement: cst.CSTNode) -> None:
        """Records that the walk enters a statement."""
        self._statements.append(statement)

    def leave(self) -> None:
        """Records that the walk leaves the statement."""
        self._statements.pop()

    def mark(self, text: str, section: str) -> None:
        """Adds a comment above the current statement, which names the section about the manual work."""
        self.marks[self._statements[-1]][f"{MARK}{text}: {page(section)}"] = None
