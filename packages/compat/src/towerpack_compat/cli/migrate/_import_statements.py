"""Import statements: what stands in the place of those of Tensorpack, TensorFlow and Horovod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import libcst as cst

from ._call_arguments import code_of
from ._findings import NewImports
from ._imported_names import is_of, walk

__all__ = ["comments_within", "is_replaced", "leading_imports", "new_imports"]

_WIDTH = 100
_REPLACED = ("tensorpack", "tensorflow", "horovod")


def is_replaced(bindings: Mapping[str, str]) -> bool:
    """Returns whether a statement with these bindings may change."""
    return any(is_of(path, package) for path in bindings.values() for package in _REPLACED)


def new_imports(
    statement: cst.Import | cst.ImportFrom, bindings: Mapping[str, str], needed: NewImports
) -> list[cst.BaseSmallStatement]:
    """Returns what stands for a statement: nothing where the script no longer needs it.

    Args:
        statement: the statement.
        bindings: what its names stand for.
        needed: what the script needs in its place.
    """
    names = sorted(needed.names, key=lambda each: (each[0].startswith("towerpack_"), each))
    groups = groupby(names, key=lambda each: each[0])
    lines = [
        *dict.fromkeys(_left(statement, bindings, needed.kept)),
        *(line for module, group in groups for line in _lines(module, group)),
        *sorted(needed.lines),
    ]
    return [_statement(line) for line in lines]


def comments_within(statements: Iterable[cst.CSTNode]) -> list[cst.EmptyLine]:
    """Returns the comments between the brackets of statements, as lines of their own."""
    nodes = (node for statement in statements for node in walk(statement))
    return [cst.EmptyLine(comment=node) for node in nodes if isinstance(node, cst.Comment)]


def leading_imports(
    module: cst.Module, statements: Mapping[cst.CSTNode, Mapping[str, str]]
) -> dict[cst.CSTNode, cst.CSTNode]:
    """Returns, for imports of Tensorpack right behind others, the first of these, which imports for all."""
    leading: dict[cst.CSTNode, cst.CSTNode] = {}
    for block in walk(module):
        before: cst.CSTNode | None = None
        for line in block.body if isinstance(block, (cst.Module, cst.IndentedBlock)) else ():
            node = _only_import(line, statements)
            if node is not None and before is not None and not _has_comment(line):
                leading[node] = leading.get(before, before)
            before = node
    return leading


def _only_import(
    line: cst.BaseStatement, statements: Mapping[cst.CSTNode, Mapping[str, str]]
) -> cst.CSTNode | None:
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    paths = statements.get(line.body[0], {}).values()
    return line.body[0] if paths and all(is_of(path, "tensorpack") for path in paths) else None


def _has_comment(line: cst.BaseStatement) -> bool:
    lines = line.leading_lines if isinstance(line, cst.SimpleStatementLine) else ()
    return any(each.comment for each in [*lines, getattr(line, "trailing_whitespace", cst.EmptyLine())])


def _left(
    statement: cst.Import | cst.ImportFrom, bindings: Mapping[str, str], kept: set[str]
) -> Iterator[str]:
    """Yields what is left of the statement: other modules of the line, and names without a counterpart."""
    if isinstance(statement.names, cst.ImportStar):
        if is_of(bindings["*"], "tensorflow"):
            yield "from tensorflow.compat.v1 import *"
        for path in sorted(kept):
            module, _, name = path.rpartition(".")
            yield f"from {module} import {name}"
    elif isinstance(statement, cst.Import):
        for alias, (bound, path) in zip(statement.names, bindings.items()):
            if is_of(path, "tensorflow"):
                yield _tensorflow(code_of(alias.name), bound)
            elif bound in kept or not is_replaced({bound: path}):
                yield f"import {code_of(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))}"
    else:
        for bound, path in bindings.items():
            module, _, name = path.rpartition(".")
            if bound in kept or is_of(path, "tensorflow"):
                yield f"from {_compatible(module)} import {name}" + (f" as {bound}" if bound != name else "")


def _compatible(module: str) -> str:
    """TensorFlow's module of the same names as before, where there is one."""
    return "tensorflow.compat.v1" if module == "tensorflow" else module


def _tensorflow(name: str, bound: str) -> str:
    if name == "tensorflow":
        return f"import tensorflow.compat.v1 as {bound}"
    return f"import {name}" + (f" as {bound}" if bound != name.partition(".")[0] else "")


def _lines(module: str, group: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    names = [(name, bound) for _, name, bound in group]
    for name, bound in names:
        if not name:
            yield f"import {module}" + (f" as {bound}" if bound else "")
    texts = [f"{name} as {bound}" if bound else name for name, bound in names if name]
    line = f"from {module} import {', '.join(texts)}"
    if len(line) > _WIDTH:
        line = f"from {module} import (\n" + "".join(f"    {text},\n" for text in texts) + ")"
    if texts:
        yield line


def _statement(line: str) -> cst.BaseSmallStatement:
    statement = cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine)
    return statement.body[0]
