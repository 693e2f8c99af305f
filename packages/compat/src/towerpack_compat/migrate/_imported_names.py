"""Names that the imports of a script bind: modules and names of Tensorpack and TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import attrs
import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, ImportAssignment, Scope

from ._name_table import NameTable

__all__ = ["Imported", "ImportedNames", "bindings_of", "is_of", "walk"]


@final
@attrs.frozen
class Imported:
    """The object that one name of a script refers to.

    Args:
        path: the dotted path, such as "tensorpack.dataflow.BatchData".
        statements: the nodes of the import statements that bind it.
        bound: the name that they bind, such as "tp" of `import tensorpack as tp`; None for a star import.
        given: the name that the star import binds.
    """

    path: str
    statements: tuple[cst.Import | cst.ImportFrom, ...]
    bound: str | None
    given: str = ""


def is_of(path: str, package: str) -> bool:
    """Returns whether a dotted path is a package or lies in it."""
    return path == package or path.startswith(f"{package}.")


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yields a node and all its descendants, in the order of the source."""
    yield node
    for child in node.children:
        yield from walk(child)


@final
class ImportedNames:
    """Resolves names to imported objects.

    Args:
        module: the module of the script's `MetadataWrapper`.
        scopes: the scope of each of its nodes.
        table: the names of Tensorpack, for star imports.

    Attributes:
        statements: the import statements in order, and the objects that each binds, by name.
        given_by_stars: the names that star imports bind, used or not.
        has_later_star: whether a star import of another module follows an import of Tensorpack and may hide
            its names.
    """

    def __init__(
        self, module: cst.Module, scopes: Mapping[cst.CSTNode, Scope | None], table: NameTable
    ) -> None:
        self._scopes = scopes
        self._table = table
        self.statements: dict[cst.CSTNode, dict[str, str]] = {}
        self.given_by_stars: dict[str, Imported] = {}
        self.has_later_star = False
        for node in walk(module):
            if isinstance(node, (cst.Import, cst.ImportFrom)):
                self.statements[node] = {bound: table.full_path(path) for bound, path in bindings_of(node)}
            if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                self._add_star(node, table)

    def resolve(self, node: cst.BaseExpression) -> Imported | None:
        """Returns the object that a name, or an attribute of one, refers to; None for anything else."""
        if isinstance(node, cst.Attribute):
            before = self.resolve(node.value)
            path = f"{before.path}.{node.attr.value}" if before is not None else ""
            return before and attrs.evolve(before, path=self._table.full_path(path))
        return self._resolve_name(node) if isinstance(node, cst.Name) else None

    def _resolve_name(self, node: cst.Name) -> Imported | None:
        scope = self._scopes.get(node)
        if scope is None:
            return None
        found = scope[node.value]
        if not found:
            return self.given_by_stars.get(node.value)
        if not all(isinstance(each, ImportAssignment) and each.node in self.statements for each in found):
            return None
        statements = [each.node for each in found if isinstance(each, Assignment)]
        statements.sort(key=list(self.statements).index)
        path = self.statements[statements[0]].get(node.value)
        return Imported(path, tuple(statements), node.value) if path else None

    def _add_star(self, node: cst.ImportFrom, table: NameTable) -> None:
        module = _module_of(node)
        if not is_of(module, "tensorpack"):
            paths = [path for bindings in self.statements.values() for path in bindings.values()]
            self.has_later_star |= any(is_of(path, "tensorpack") for path in paths)
            return
        for name, path in table.given_by_star(module):
            self.given_by_stars.setdefault(name, Imported(path, (node,), None, name))


def bindings_of(node: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yields each name that a statement binds and its object; for a star import, its module."""
    module = f"{_module_of(node)}." if isinstance(node, cst.ImportFrom) else ""
    if isinstance(node.names, cst.ImportStar):
        yield "*", module[:-1]
        return
    for alias in node.names:
        name = get_full_name_for_node(alias.name) or ""
        if alias.asname is not None:
            yield str(alias.evaluated_alias), module + name
        elif module:
            yield name, module + name
        else:
            yield name.split(".")[0], name.split(".")[0]


def _module_of(node: cst.ImportFrom) -> str:
    """The module that names are imported from; a relative import keeps its leading dots."""
    name = get_full_name_for_node(node.module) if node.module is not None else ""
    return "." * len(node.relative) + (name or "")
