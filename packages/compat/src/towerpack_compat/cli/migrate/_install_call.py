"""The lines at the top of a script that install Tensorpack's names."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ._call_arguments import code_of

__all__ = ["with_install"]

_LINES = "import towerpack_compat\n\ntowerpack_compat.install()\n"
_EMPTY = cst.EmptyLine(indent=False)


def with_install(module: cst.Module) -> cst.Module:
    """Adds a call of `towerpack_compat.install` above the imports of a script, unless it has one."""
    if any(code_of(line).strip().startswith("towerpack_compat.install(") for line in module.body):
        return module
    place = _first_place(module.body)
    new = list(cst.parse_module(_LINES).body)
    before, after = list(module.body[:place]), list(module.body[place:])
    if before:
        new[0] = new[0].with_changes(leading_lines=[_EMPTY])
    if after and not _begins_with_a_gap(after[0]):
        lines = getattr(after[0], "leading_lines", ())
        after[0] = after[0].with_changes(leading_lines=[_EMPTY, *lines])
    return module.with_changes(body=[*before, *new, *after])


def _first_place(body: Sequence[cst.CSTNode]) -> int:
    """The number of statements that have to stay first: the docstring and imports from `__future__`."""
    place = 0
    for number, line in enumerate(body):
        code = code_of(line).strip()
        first = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        is_docstring = (
            number == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
        )
        if is_docstring or code.startswith("from __future__"):
            place = number + 1
    return place


def _begins_with_a_gap(line: cst.CSTNode) -> bool:
    lines = getattr(line, "leading_lines", ())
    return bool(lines) and lines[0].comment is None
