"""Replacements for the import statements of Tensorpack and TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import libcst as cst

from ._call_arguments import code_of
from ._findings import NewImports
from ._imported_names import is_of, walk

__all__ = [
    "comments_within",
    "is_replaced",
    "is_tensorflow",
    "leading_imports",
    "needs_install",
    "new_imports",
]

_WIDTH = 100


def is_replaced(bindings: Mapping[str, str], compatible: bool) -> bool:
    """Returns whether a statement may change.

    Args:
        bindings: the objects that its names refer to.
        compatible: whether to replace TensorFlow by `tensorflow.compat.v1`.
    """
    return any(
        is_of(path, "tensorpack") or (compatible and is_tensorflow(path)) for path in bindings.values()
    )


def needs_install(bindings: Mapping[str, str]) -> bool:
    """Returns whether a statement imports a name that `tensorflow.compat.v1` lacks."""
    return any(
        is_of(path, "tensorflow.contrib") or is_of(path, "tensorflow.keras") for path in bindings.values()
    )


def new_imports(
    statement: cst.Import | cst.ImportFrom, bindings: Mapping[str, str], needed: NewImports, compatible: bool
) -> list[cst.BaseSmallStatement]:
    """Returns the replacement of a statement: nothing if the script no longer needs it.

    Args:
        statement: the statement.
        bindings: the objects that its names refer to.
        needed: the imports that replace it.
        compatible: whether to replace TensorFlow by `tensorflow.compat.v1`.
    """
    names = sorted(needed.names, key=lambda each: (each[0].startswith("towerpack_"), each))
    groups = groupby(names, key=lambda each: each[0])
    lines = [
        *_left(statement, bindings, needed.kept, compatible),
        *(line for module, group in groups for line in _lines(module, group)),
    ]
    return [_statement(line) for line in lines]


def comments_within(statements: Iterable[cst.CSTNode]) -> list[cst.EmptyLine]:
    """Returns the comments between the brackets of statements, as separate lines."""
    nodes = (node for statement in statements for node in walk(statement))
    return [cst.EmptyLine(comment=node) for node in nodes if isinstance(node, cst.Comment)]


def leading_imports(
    module: cst.Module, statements: Mapping[cst.CSTNode, Mapping[str, str]]
) -> dict[cst.CSTNode, cst.CSTNode]:
    """Maps each of several consecutive imports of Tensorpack to the first one, which imports for all."""
    leading: dict[cst.CSTNode, cst.CSTNode] = {}
    for block in walk(module):
        before: cst.CSTNode | None = None
        for line in block.body if isinstance(block, (cst.Module, cst.IndentedBlock)) else ():
            body = line.body if isinstance(line, cst.SimpleStatementLine) else ()
            paths = statements.get(body[0], {}).values() if len(body) == 1 else ()
            node = body[0] if paths and all(is_of(path, "tensorpack") for path in paths) else None
            if node is not None and before is not None and not any(comments_within([line])):
                leading[node] = leading.get(before, before)
            before = node
    return leading


def _left(
    statement: cst.Import | cst.ImportFrom, bindings: Mapping[str, str], kept: set[str], compatible: bool
) -> Iterator[str]:
    """Yields the remaining parts of the statement: other modules of the line, and names that stay."""
    if isinstance(statement, cst.Import):
        for alias, (bound, path) in zip(statement.names, bindings.items()):
            if compatible and path == "tensorflow":
                yield f"import tensorflow.compat.v1 as {bound}"
            elif bound in kept or not is_of(path, "tensorpack"):
                yield f"import {code_of(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))}"
        return
    module = code_of(statement.module) if statement.module is not None else ""
    if module == "tensorflow" and compatible:
        names = ", ".join(_alias(each) for each in _aliases(statement)) or "*"
        yield f"from tensorflow.compat.v1 import {names}"
    elif isinstance(statement.names, cst.ImportStar):
        yield from _lines(module, ((module, name, "") for name in sorted(kept)))
    else:
        aliases = [
            each for each in _aliases(statement) if str(each.evaluated_alias or each.evaluated_name) in kept
        ]
        yield from _from(module, [_alias(each) for each in aliases])


def _aliases(statement: cst.ImportFrom) -> Iterable[cst.ImportAlias]:
    return () if isinstance(statement.names, cst.ImportStar) else statement.names


def _alias(alias: cst.ImportAlias) -> str:
    bound = alias.evaluated_alias
    return str(alias.evaluated_name) + (f" as {bound}" if bound else "")


def is_tensorflow(path: str) -> bool:
    """Returns whether a path is that of TensorFlow, or of a name of its root."""
    return path == "tensorflow" or (is_of(path, "tensorflow") and path.count(".") == 1)


def _lines(module: str, group: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    names = [(name, bound) for _, name, bound in group]
    for name, bound in names:
        if not name:
            yield f"import {module}" + (f" as {bound}" if bound else "")
    texts = [f"{name} as {bound}" if bound else name for name, bound in names if name]
    yield from _from(module, texts)


def _from(module: str, texts: Sequence[str]) -> Iterator[str]:
    line = f"from {module} import {', '.join(texts)}"
    if len(line) > _WIDTH:
        line = f"from {module} import (\n" + "".join(f"    {text},\n" for text in texts) + ")"
    if texts:
        yield line


def _statement(line: str) -> cst.BaseSmallStatement:
    return cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine).body[0]
