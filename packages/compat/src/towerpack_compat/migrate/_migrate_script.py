"""Migration of one script of Tensorpack: its new source, a diff, and the code that will not work."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import final

import attrs
import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, ClassScope, ImportAssignment, MetadataWrapper, Scope, ScopeProvider

from .._errors import MigrationError
from ._call_arguments import code_of
from ._chosen_names import NameChooser
from ._findings import MARK, Findings
from ._flow_classes import FlowClasses
from ._import_statements import is_tensorflow, leading_imports
from ._imported_names import ImportedNames, bindings_of, is_of, walk
from ._name_table import read_names
from ._rewriter import Rewriter

__all__ = ["Migration", "Place", "migrate_source", "with_install"]


_MOST_WALKS = 8


@final
@attrs.frozen
class Place:
    """The role of a file in its program.

    Args:
        exported: names that other files import from it.
        is_imported: whether other files import it.
        is_part: whether it belongs to a program that imports Tensorpack.
        has_old_methods: whether a file of the program defines methods of flows under old names.
    """

    exported: frozenset[str] = frozenset()
    is_imported: bool = False
    is_part: bool = False
    has_old_methods: bool = False


_ALONE = Place()


@final
@attrs.frozen
class Migration:
    """A script before and after its migration.

    Args:
        before: the original content of the file.
        after: the rewritten content; the same bytes if there is nothing to rewrite.
        encoding: the encoding of both.
        has_old_methods: whether it defines methods of flows under old names.
    """

    before: bytes
    after: bytes
    encoding: str
    has_old_methods: bool = False

    @property
    def by_hand(self) -> list[tuple[int, str]]:
        """The marks for manual work: the number of each marked line, from 1, and its text."""
        lines = self.after.decode(self.encoding).splitlines()
        return [
            (number, line.strip().removeprefix(MARK))
            for number, line in enumerate(lines, 1)
            if line.strip().startswith(MARK)
        ]

    def diff(self, name: str) -> str:
        """Returns the change as a unified diff of the file `name`; empty if there is none."""
        before, after = (
            text.decode(self.encoding).splitlines(keepends=True) for text in (self.before, self.after)
        )
        lines = difflib.unified_diff(before, after, f"{name} (Tensorpack)", f"{name} (Towerpack)")
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def migrate_source(source: bytes, name: str = "<script>", place: Place = _ALONE) -> Migration:
    """Rewrites a script. A script without imports of Tensorpack stays unchanged, unless its program has some.

    Args:
        source: the content of the file.
        name: the name of the file in errors.
        place: its role in its program.

    Raises:
        MigrationError: the script is not valid Python 3; the message names line and column.
    """
    try:
        module = _parse(source, name)
        is_old = _imports_tensorpack(module)
        if not is_old and not place.is_part:
            return Migration(source, source, module.encoding)
        after, old_methods = _rewritten(module, place, is_old)
    except (RecursionError, MemoryError) as error:
        raise MigrationError(
            f"{name}:1:1: expected code that is less deeply nested; {error}. Give long expressions names."
        ) from error
    return Migration(source, after.bytes, module.encoding, old_methods)


def _parse(source: bytes, name: str) -> cst.Module:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise MigrationError(f"{name}:1:1: expected text in the encoding that it names; {error}.") from error
    # Python parses first: its errors are the most exact, and its limit of depth keeps libcst from crashing.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
        return cst.parse_module(source)
    except SyntaxError as error:
        raise _no_script(f"{name}:{error.lineno or 1}:{error.offset or 1}", error.msg) from error
    except cst.ParserSyntaxError as error:
        raise _no_script(f"{name}:{error.editor_line}:{error.editor_column}", error.message) from error
    except ValueError as error:  # null bytes
        raise _no_script(f"{name}:1:1", str(error)) from error


def _no_script(where: str, message: str) -> MigrationError:
    return MigrationError(
        f"{where}: expected Python 3, received code that does not parse: {message}. "
        "Translate a script of Python 2 first, for example by 2to3."
    )


def _imports_tensorpack(module: cst.Module) -> bool:
    imports = (node for node in walk(module) if isinstance(node, (cst.Import, cst.ImportFrom)))
    return any(is_of(path, "tensorpack") for node in imports for _, path in bindings_of(node))


def _rewritten(module: cst.Module, place: Place, is_old: bool) -> tuple[cst.Module, bool]:
    """Returns the new script, and whether it defines methods of flows under old names."""
    wrapper = MetadataWrapper(module)
    scopes: Mapping[cst.CSTNode, Scope | None] = wrapper.resolve(ScopeProvider)
    names = ImportedNames(wrapper.module, scopes, read_names())
    exported = {*_exported(wrapper.module), *place.exported}
    leading = leading_imports(wrapper.module, names.statements)
    kept: set[str] = set()
    found = Findings()
    found.needs_install = found.has_old_methods = is_old and place.has_old_methods
    for _ in range(_MOST_WALKS):
        findings = Findings()
        chooser = NameChooser(names, read_names(), _taken(scopes), exported, kept)
        classes = FlowClasses(findings, kept, not found.has_old_methods)
        rewritten = wrapper.module.visit(Rewriter(names, chooser, classes, findings, found))
        chooser.need_imported(findings)
        findings.merge_imports(leading)
        findings.has_old_methods |= found.has_old_methods
        findings.needs_install |= found.needs_install or (is_old and findings.has_old_methods)
        paths = (path for bindings in names.statements.values() for path in bindings.values())
        if is_old and not place.is_imported and any(map(is_tensorflow, paths)):
            findings.needs_install = True  # TensorFlow 1 has no eager execution
        is_done = findings.unequal <= kept and findings.is_like(found)
        kept |= findings.unequal
        found = findings
        if is_done:
            break
    return with_install(rewritten) if found.needs_install else rewritten, found.has_old_methods


def _taken(scopes: Mapping[cst.CSTNode, Scope | None]) -> Collection[str]:
    """The names that a script defines and that would hide imported names."""
    kinds = {scope for scope in scopes.values() if scope is not None and not isinstance(scope, ClassScope)}
    return {
        each.name
        for scope in kinds
        for each in scope.assignments
        if isinstance(each, Assignment) and not _is_replaced_import(each)
    }


def _is_replaced_import(assignment: Assignment) -> bool:
    if not isinstance(assignment, ImportAssignment) or not isinstance(assignment.node, cst.ImportFrom):
        return False
    module = assignment.node.module
    return module is not None and is_of(get_full_name_for_node(module) or "", "tensorpack")


def _exported(module: cst.Module) -> Iterator[str]:
    """The names in the script's `__all__`."""
    for node in walk(module):
        if isinstance(node, (cst.Assign, cst.AugAssign)):
            targets = (
                [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
            )
            if any(isinstance(each, cst.Name) and each.value == "__all__" for each in targets):
                texts = [each for each in walk(node.value) if isinstance(each, cst.SimpleString)]
                yield from (str(each.evaluated_value) for each in texts)


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
