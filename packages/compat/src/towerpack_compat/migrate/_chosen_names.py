"""Replacements for the names of a script, and the imports that they need."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import final

import attrs
import libcst as cst

from .._old_arrays import NAMES
from ._call_arguments import has_equal_call, hopeless_arguments
from ._findings import Findings
from ._imported_names import Imported, ImportedNames, is_of
from ._name_table import Counterpart, Entry, NameTable, read_calls

__all__ = ["Choice", "NameChooser", "chain_of"]

# Modules that stay prefixes: their names are too short to be clear alone.
_AUGMENT = "tensorpack.dataflow.imgaug"
# Names that `tf.compat.v1` of TensorFlow 2.16 lacks or takes from Keras 3.
_OF_INSTALL = ("contrib", "estimator", "keras", "layers", "nn.rnn_cell")
# Names that NumPy removed and Python has, too.
_BUILTINS = ("bool", "complex", "float", "int", "object", "str")


@final
@attrs.frozen
class Choice:
    """The replacement of an expression.

    Args:
        called: its name in the table of calls.
        code: the source of the replacement.
    """

    called: str
    code: str


@final
class NameChooser:
    """Chooses the replacements for the names of a script, and collects the imports that they need.

    Args:
        names: the objects that names refer to.
        table: the names of Tensorpack.
        taken: names that the script defines.
        exported: names in `__all__` and names that other files of the program import; they have to stay.
        kept: names of Tensorpack that stay.
    """

    def __init__(
        self,
        names: ImportedNames,
        table: NameTable,
        taken: Collection[str],
        exported: Collection[str],
        kept: Collection[str],
    ) -> None:
        self._names = names
        self._table = table
        self._taken = taken
        self._exported = exported
        self._kept = kept

    def choose(
        self, chain: list[cst.BaseExpression], call: cst.Call | None, findings: Findings
    ) -> Mapping[cst.CSTNode, Choice]:
        """Returns the replacements for parts of a chain such as `np`, `np.bool`.

        Args:
            chain: the expressions.
            call: the call of the last expression, if it is called.
            findings: collects imports, and names that stay.
        """
        whole = self._names.resolve(chain[-1])
        if whole is None:
            return {}
        if is_of(whole.path, "tensorflow"):
            below = whole.path.removeprefix("tensorflow.")
            findings.needs_install |= any(is_of(below, each) for each in _OF_INSTALL)
        elif is_of(whole.path, "numpy"):
            return self._numpy(chain, findings)
        elif is_of(whole.path, "tensorpack"):
            return self._tensorpack(chain, call, findings)
        return {}

    def mark_unknown(self, statement: cst.CSTNode, kept: Collection[str], findings: Findings) -> None:
        """Marks names of an import statement that stay, and that `towerpack_compat` lacks."""
        for bound, path in self._names.statements.get(statement, {}).items():
            if bound in kept and is_of(path, "tensorpack") and not self._table.is_known(path):
                findings.mark(f"`{path}` does not exist", "#names")

    def need_imported(self, findings: Findings) -> None:
        """Records the imports of names that the script imports explicitly, used or not."""
        for statement, bindings in self._names.statements.items():
            for bound, path in bindings.items():
                if bound == "*" or not is_of(path, "tensorpack"):
                    continue
                imported = Imported(path, (statement,), bound)
                if isinstance(statement, cst.ImportFrom):
                    self._need_whole(imported, bound, findings)
                elif bound in self._exported:
                    self._keep(imported, findings)
        for name, imported in self._names.given_by_stars.items():
            if name in self._exported:
                self._need_whole(imported, name, findings)

    def _need_whole(self, imported: Imported, bound: str, findings: Findings) -> None:
        """Records the import of a name that other files may use, too."""
        name = imported.path.rpartition(".")[2]
        entry = self._table.entries.get(name)
        if imported.path == _AUGMENT and _AUGMENT not in self._kept:
            self._need(imported, ("towerpack_dataflow", "augment", bound), findings)
        elif (
            entry is not None and entry.counterpart is not None and entry.is_equal and name not in self._kept
        ):
            if bound in self._exported and name in read_calls():
                findings.unequal.add(name)
            self._import(entry, entry.counterpart, imported, findings)
        elif bound in self._exported or not self._is_plain_module(imported.path):
            self._keep(imported, findings)

    def _is_plain_module(self, path: str) -> bool:
        return self._table.is_module(path) and not self._table.has_names_of_its_own(path)

    def _numpy(self, chain: list[cst.BaseExpression], findings: Findings) -> Mapping[cst.CSTNode, Choice]:
        for part in chain:
            name = self._resolved(part).path.removeprefix("numpy.")
            if name in _BUILTINS and name not in self._taken:
                return {part: Choice("", name)}
            findings.needs_install |= name in NAMES
        return {}

    def _tensorpack(
        self, chain: list[cst.BaseExpression], call: cst.Call | None, findings: Findings
    ) -> Mapping[cst.CSTNode, Choice]:
        for place, part in enumerate(chain):
            imported = self._resolved(part)
            if self._table.has_names_of_its_own(imported.path):
                break
            entry = self._table.entries.get(imported.path.rpartition(".")[2])
            if entry is not None:
                called = call if place == len(chain) - 1 else None
                return self._entry(entry, chain[: place + 1], called, findings)
            if not self._table.is_module(imported.path):
                if part is not chain[0]:
                    findings.mark(f"`{imported.path}` does not exist", "#names")
                break
        imported = self._resolved(chain[-1])
        if imported.path == _AUGMENT and _AUGMENT not in self._kept:
            return {chain[-1]: Choice("", self._augment(chain[-1], imported, findings))}
        self._keep(imported, findings)
        return {}

    def _entry(
        self, entry: Entry, chain: list[cst.BaseExpression], call: cst.Call | None, findings: Findings
    ) -> Mapping[cst.CSTNode, Choice]:
        imported = self._resolved(chain[-1])
        prefix = self._resolved(chain[-2]).path if len(chain) > 1 else ""
        unit = _AUGMENT if prefix == _AUGMENT else entry.name
        self._mark_lost(entry, call, findings)
        if entry.counterpart is None or not self._is_equal(entry, call):
            findings.unequal.add(unit)
        if unit in self._kept or entry.counterpart is None:
            self._keep(imported, findings)
            return {}
        if prefix == _AUGMENT:
            written = self._augment(chain[-2], imported, findings)
            return {chain[-1]: Choice(entry.name, f"{written}.{entry.counterpart.name}")}
        return {chain[-1]: Choice(entry.name, self._import(entry, entry.counterpart, imported, findings))}

    def _is_equal(self, entry: Entry, call: cst.Call | None) -> bool:
        change = read_calls().get(entry.name)
        if not entry.is_equal or change is None:
            return entry.is_equal
        return call is not None and not self._names.has_later_star and has_equal_call(call, change)

    def _mark_lost(self, entry: Entry, call: cst.Call | None, findings: Findings) -> None:
        """Marks the uses that `towerpack_compat` rejects when the script runs."""
        change = read_calls().get(entry.name)
        if entry.is_lost:
            findings.mark(f"`{entry.name}` has no counterpart", entry.section)
        elif change is not None and change.changed and entry.is_equal:
            findings.mark(f"`{entry.name}` works in another way", change.changed)
        elif change is not None and call is not None and entry.is_equal:
            for argument, section in hopeless_arguments(call, change):
                findings.mark(f"`{entry.name}({argument})` has no counterpart", section)

    def _import(self, entry: Entry, counterpart: Counterpart, imported: Imported, findings: Findings) -> str:
        """Records the import of a counterpart, and returns its name in the script."""
        directly = imported.bound is None or imported.path.count(".") == self._depth(imported)
        bound = imported.bound if directly and imported.bound is not None else entry.name
        if directly and (bound != entry.name or bound in self._exported):
            local = bound
        elif counterpart.name not in self._taken or (directly and counterpart.name == bound):
            local = counterpart.name
        else:
            local = bound if directly else f"towerpack_{counterpart.name}"
        alias = local if local != counterpart.name else ""
        self._need(imported, (counterpart.module, counterpart.name, alias), findings)
        return local

    def _depth(self, imported: Imported) -> int:
        """The number of dots in the path that a statement binds."""
        return self._names.statements[imported.statements[0]][imported.bound or ""].count(".")

    def _augment(self, node: cst.BaseExpression, imported: Imported, findings: Findings) -> str:
        local = node.value if isinstance(node, cst.Name) else "imgaug"
        self._need(imported, ("towerpack_dataflow", "augment", local), findings)
        return local

    def _need(self, imported: Imported, name: tuple[str, str, str], findings: Findings) -> None:
        for statement in imported.statements:
            findings.imports[statement].names.add(name)

    def _keep(self, imported: Imported, findings: Findings) -> None:
        """Records that a name keeps its old import, which `install` provides."""
        findings.needs_install = True
        for statement in imported.statements:
            findings.imports[statement].kept.add(imported.bound or imported.given)

    def _resolved(self, node: cst.BaseExpression) -> Imported:
        imported = self._names.resolve(node)
        assert imported is not None
        return imported


def chain_of(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yields `a`, `a.b`, `a.b.c` of the expression `a.b.c`."""
    if isinstance(node, cst.Attribute):
        yield from chain_of(node.value)
    yield node
