"""One walk through a script that rewrites it bottom-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, final

import libcst as cst

from ._call_arguments import change_arguments
from ._chosen_names import Choice, NameChooser, chain_of
from ._findings import Findings
from ._flow_classes import FlowClasses
from ._import_statements import comments_within, is_replaced, needs_install, new_imports
from ._imported_names import ImportedNames
from ._name_table import read_calls

__all__ = ["Rewriter"]

_Left: TypeAlias = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
# Placeholder in a line without statements: libcst would drop the line together with its comments.
_GONE = cst.Pass()


@final
class Rewriter(cst.CSTTransformer):
    """Rewrites names, calls, flows and imports; marks code that will not work.

    Imports precede the names that need them, so a walk knows the required imports only at its end. The
    script is therefore walked again: each walk writes the imports that the previous one found.

    Args:
        names: the objects that the script's names refer to.
        chooser: chooses their replacements.
        classes: tracks the classes that are flows.
        findings: collects the results of this walk.
        found_before: the results of the previous walk.
    """

    def __init__(
        self,
        names: ImportedNames,
        chooser: NameChooser,
        classes: FlowClasses,
        findings: Findings,
        found_before: Findings,
    ) -> None:
        super().__init__()
        self.findings = findings
        self._names = names
        self._chooser = chooser
        self._imports = found_before.imports
        self._compatible = not found_before.needs_install
        self._header: Sequence[cst.EmptyLine] = ()
        self._choices: dict[cst.CSTNode, Choice] = {}
        self._seen: set[cst.CSTNode] = set()
        self._calls: dict[cst.CSTNode, cst.Call] = {}
        self._classes = classes

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Tracks the statements, and chooses the replacement of a name before the walk leaves its parts."""
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self.findings.enter(node)
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            return False
        if isinstance(node, cst.Call):
            self._calls[node.func] = node
        if isinstance(node, (cst.Name, cst.Attribute)) and node not in self._seen:
            chain = list(chain_of(node))
            self._seen.update(chain)
            self._choices.update(self._chooser.choose(chain, self._calls.get(node), self.findings))
        self._classes.enter(node, self._bases(node) if isinstance(node, cst.ClassDef) else [])
        return bool(super().on_visit(node))

    def on_leave(
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """Marks a statement after its whole content was visited."""
        self._classes.leave(original_node)
        left = super().on_leave(original_node, updated_node)
        if isinstance(original_node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self.findings.leave()
            return self._marked(left, list(self.findings.marks.get(original_node, ())))
        return left

    def leave_Name(
        self, original_node: cst.BaseExpression, updated_node: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Writes the replacement of a name or an attribute."""
        choice = self._choices.get(original_node)
        if choice is None:
            return updated_node
        new = cst.parse_expression(choice.code)
        return new.with_changes(**{name: getattr(updated_node, name, ()) for name in ("lpar", "rpar")})

    leave_Attribute = leave_Name

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Changes the arguments of a call, or the call itself."""
        choice = self._choices.get(original_node.func)
        change = read_calls().get(choice.called) if choice is not None else None
        return self._classes.call(updated_node) if change is None else change_arguments(updated_node, change)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Renames methods of subclasses."""
        return self._classes.method(updated_node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Writes the imports of a line; a line without statements is removed later."""
        if not updated_node.body:
            return updated_node.with_changes(body=[_GONE])
        imports = self._replaced(original_node.body)
        if not imports:
            return updated_node
        lines = [*updated_node.leading_lines, *comments_within(imports)]
        updated_node = updated_node.with_changes(leading_lines=lines)
        if len(original_node.body) == 1:
            return self._as_lines(updated_node, self._new(original_node.body[0]))
        return updated_node.with_changes(body=[each for old in updated_node.body for each in self._new(old)])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        """Writes the imports of a body in the line of its header, and makes the body a block."""
        imports = self._replaced(original_node.body)
        if updated_node.body and not imports:
            return updated_node
        body = [each for old in updated_node.body for each in self._new(old)] or [cst.Pass()]
        lines = [
            cst.SimpleStatementLine([each.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for each in body
        ]
        lines[0] = lines[0].with_changes(leading_lines=comments_within(imports))
        return cst.IndentedBlock(lines, header=updated_node.trailing_whitespace)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Removes lines that became empty; a block keeps at least one statement."""
        body, comments = without_empty_lines(updated_node.body)
        if not body:
            body, comments = [cst.SimpleStatementLine([cst.Pass()], leading_lines=comments)], []
        return updated_node.with_changes(body=body, footer=[*comments, *updated_node.footer])

    def visit_Module(self, node: cst.Module) -> None:
        """Records the comments above the first statement; an earlier run may have written some of them."""
        self._header = node.header

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Removes lines that became empty."""
        body, comments = without_empty_lines(updated_node.body)
        return updated_node.with_changes(body=body, footer=[*comments, *updated_node.footer])

    def _marked(self, statement: _Left, marks: Sequence[str]) -> _Left:
        """Adds the missing comments above the statement, or above the first of several."""
        if not marks or isinstance(statement, cst.RemovalSentinel):
            return statement
        if isinstance(statement, cst.FlattenSentinel):
            first, *others = statement
            return cst.FlattenSentinel([cst.ensure_type(self._marked(first, marks), cst.CSTNode), *others])
        there = {line.comment.value for line in [*self._header, *statement.leading_lines] if line.comment}
        lines = [cst.EmptyLine(comment=cst.Comment(mark)) for mark in marks if mark not in there]
        return statement.with_changes(leading_lines=[*statement.leading_lines, *lines])

    def _bases(self, node: cst.ClassDef) -> list[str]:
        """The names of a class's bases in the table of calls."""
        found = []
        for base in node.bases:
            if isinstance(base.value, (cst.Name, cst.Attribute)):
                imported = self._names.resolve(base.value)
                found.append(imported.path.rpartition(".")[2] if imported is not None else "")
        return found

    def _replaced(self, statements: Sequence[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
        """Returns the imports that may change."""
        for node in statements:
            self.findings.needs_install |= needs_install(self._names.statements.get(node, {}))
            self._chooser.mark_unknown(node, self._imports[node].kept, self.findings)
        return [node for node in statements if self._is_replaced(node)]

    def _is_replaced(self, node: cst.CSTNode) -> bool:
        bindings = self._names.statements.get(node, {})
        if not is_replaced(bindings, self._compatible):
            return False
        needed = self._imports[node]
        all_stay = {*bindings} <= needed.kept and not needed.names
        return not (all_stay and is_replaced(bindings, compatible=False))

    def _new(self, node: cst.BaseSmallStatement) -> Sequence[cst.BaseSmallStatement]:
        if not isinstance(node, (cst.Import, cst.ImportFrom)) or not self._is_replaced(node):
            return [node]
        return new_imports(node, self._names.statements[node], self._imports[node], self._compatible)

    def _as_lines(
        self, line: cst.SimpleStatementLine, statements: Sequence[cst.BaseSmallStatement]
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        if not statements:
            return line.with_changes(body=[_GONE])
        first = line.with_changes(body=statements[:1])
        others = [cst.SimpleStatementLine([each]) for each in statements[1:]]
        return cst.FlattenSentinel([first, *others])


def without_empty_lines(
    body: Sequence[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], Sequence[cst.EmptyLine]]:
    """Removes lines without statements; moves their comments to the next statement, or returns them."""
    left: list[cst.BaseStatement] = []
    carried: list[cst.EmptyLine] = []
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine) and all(part is _GONE for part in statement.body):
            carried = _joined(carried, statement.leading_lines)
            if statement.trailing_whitespace.comment is not None:
                carried.append(cst.EmptyLine(comment=statement.trailing_whitespace.comment))
        elif carried and hasattr(statement, "leading_lines"):
            lines = _joined(carried, statement.leading_lines)
            left.append(statement.with_changes(leading_lines=lines))
            carried = []
        else:
            left.append(statement)
    return left, [line for line in carried if line.comment is not None]


def _joined(before: Sequence[cst.EmptyLine], after: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Joins comment lines; empty lines alone are not added above other comments or code."""
    if after and after[0].comment is None and all(line.comment is None for line in before):
        return list(after)
    return [*before, *after]
