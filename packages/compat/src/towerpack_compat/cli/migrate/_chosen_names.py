"""Which names of a script are rewritten to what, and which imports that needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import final

import attrs
import libcst as cst

from ._findings import Findings
from ._imported_names import Imported, ImportedNames, is_of
from ._name_table import Counterpart, Entry, NameTable, read_tensorflow_names

__all__ = ["Choice", "NameChooser", "chain_of"]

# What stays a prefix of its names: their names alone say too little.
_PREFIXES = {
    "tensorpack.dataflow.imgaug": ("towerpack_dataflow", "augment", "imgaug"),
    "tensorpack.dataflow.dataset": ("towerpack_dataflow", "datasets", "dataset"),
}
_LOGGER = "tensorpack.utils.logger"
_OF_LOGGING = ("debug", "info", "warning", "warn", "error", "exception", "critical")
_TENSORFLOW = ("tensorpack.compat.tfv1", "tensorpack.tfv1", "tensorflow.compat.v1", "tensorflow")
_OF_HOROVOD = {"rank": "rank", "size": "size"}
_HOROVOD = "horovod.tensorflow"


@final
@attrs.frozen
class Choice:
    """What is written for an expression.

    Args:
        called: the name by which the table of calls knows it.
        code: what is written for it; None: it stays.
    """

    called: str
    code: str | None = None


@final
class NameChooser:
    """Chooses what is written for the names of a script, and finds out which imports that needs.

    Args:
        names: what names stand for.
        table: the names of Tensorpack.
        taken: names that the script gives to things of its own.
        exported: the names in the script's `__all__`, which have to stay.
    """

    def __init__(
        self, names: ImportedNames, table: NameTable, taken: Collection[str], exported: Collection[str]
    ) -> None:
        self._names = names
        self._table = table
        self._taken = taken
        self._exported = exported

    def choose(self, chain: list[cst.BaseExpression], findings: Findings) -> dict[cst.CSTNode, Choice]:
        """Returns what is written for which parts of a chain such as `tf`, `tf.nn`, `tf.nn.relu`."""
        whole = self._names.resolve(chain[-1])
        if whole is None:
            return {}
        if any(is_of(whole.path, package) for package in _TENSORFLOW):
            return self._tensorflow(chain, findings)
        if is_of(whole.path, _HOROVOD):
            return self._horovod(chain, findings)
        if is_of(whole.path, _LOGGER):
            return self._logger(chain, findings)
        if is_of(whole.path, "tensorpack"):
            return self._tensorpack(chain, findings)
        return {}

    def need_imported(self, findings: Findings) -> None:
        """Notes the imports of names that the script imports by name, used or not."""
        for statement, bindings in self._names.statements.items():
            for bound, path in bindings.items():
                entry = self._table.entries.get(path.rpartition(".")[2])
                if bound == "*" or not is_of(path, "tensorpack") or not isinstance(statement, cst.ImportFrom):
                    continue
                imported = Imported(path, (statement,), bound)
                if entry is not None and entry.counterpart is not None:
                    self._import(entry, entry.counterpart, imported, findings)
                elif path in _PREFIXES:
                    self._need(imported, (*_PREFIXES[path][:2], bound), findings)
                elif path in _TENSORFLOW:
                    self._need(imported, ("tensorflow.compat.v1", "", bound), findings)
                elif entry is None and not self._is_module(path):
                    self._keep(imported, findings)
        for name, imported in self._names.given_by_stars.items():
            entry = self._table.entries.get(name)
            if name in self._exported and entry is not None and entry.counterpart is not None:
                self._import(entry, entry.counterpart, imported, findings)

    def _tensorpack(self, chain: list[cst.BaseExpression], findings: Findings) -> dict[cst.CSTNode, Choice]:
        for place, part in enumerate(chain):
            imported = self._resolved(part)
            entry = self._table.entries.get(imported.path.rpartition(".")[2])
            if entry is not None:
                return self._entry(entry, chain[: place + 1], findings)
        imported = self._resolved(chain[-1])
        if imported.path in _PREFIXES:
            return self._prefix(imported.path, chain[-1], imported, findings)
        self._keep(imported, findings)
        if imported.path != "tensorpack":
            findings.mark(f"`{imported.path}` is not there", "#names")
        return {}

    def _entry(
        self, entry: Entry, chain: list[cst.BaseExpression], findings: Findings
    ) -> dict[cst.CSTNode, Choice]:
        imported = self._resolved(chain[-1])
        if entry.counterpart is None:
            self._keep(imported, findings)
            findings.mark(f"`{entry.name}` has no counterpart", entry.section)
            return {chain[-1]: Choice(entry.name)}
        prefix = self._resolved(chain[-2]).path if len(chain) > 1 else ""
        if prefix in _PREFIXES and entry.counterpart.module == ".".join(_PREFIXES[prefix][:2]):
            before = self._prefix(prefix, chain[-2], imported, findings)
            written = before[chain[-2]].code or _bare(chain[-2])
            return {chain[-1]: Choice(entry.name, f"{written}.{entry.counterpart.name}")}
        return {chain[-1]: Choice(entry.name, self._import(entry, entry.counterpart, imported, findings))}

    def _import(self, entry: Entry, counterpart: Counterpart, imported: Imported, findings: Findings) -> str:
        """Notes the import of a counterpart, and returns its name in the script."""
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
        """How many dots there are in the path of what a statement binds."""
        return self._names.statements[imported.statements[0]][imported.bound or ""].count(".")

    def _prefix(
        self, path: str, node: cst.BaseExpression, imported: Imported, findings: Findings
    ) -> dict[cst.CSTNode, Choice]:
        module, name, usual = _PREFIXES[path]
        local = node.value if isinstance(node, cst.Name) else usual
        self._need(imported, (module, name, local), findings)
        return {node: Choice("", local)}

    def _tensorflow(self, chain: list[cst.BaseExpression], findings: Findings) -> dict[cst.CSTNode, Choice]:
        written = read_tensorflow_names()
        for part in reversed(chain):
            imported = self._resolved(part)
            package = next(each for each in _TENSORFLOW if is_of(imported.path, each))
            below = imported.path[len(package) + 1 :]
            found = written.get(below)
            if isinstance(found, str):
                findings.mark(f"`tf.{below}` is done in another way", found)
                return {}
            if found is not None and found.module == "tensorflow":
                return {part: Choice(below.rpartition(".")[2], f"{_bare(chain[0])}.{found.name}")}
            if found is not None:
                local = found.name if found.name not in self._taken else f"towerpack_{found.name}"
                alias = local if local != found.name else ""
                self._need(imported, (found.module, found.name, alias), findings)
                return {part: Choice(below.rpartition(".")[2], local)}
        imported = self._resolved(chain[0])
        if imported.path in _TENSORFLOW and imported.bound is None:
            self._need(imported, ("tensorflow.compat.v1", "", _bare(chain[0])), findings)
        return {}

    def _horovod(self, chain: list[cst.BaseExpression], findings: Findings) -> dict[cst.CSTNode, Choice]:
        imported = self._resolved(chain[-1])
        below = imported.path[len(_HOROVOD) + 1 :]
        if below == "init":
            return {chain[-1]: Choice("hvd.init")}
        if below in _OF_HOROVOD:
            self._need(imported, ("towerpack_trainers.distributed", "resolve_cluster", ""), findings)
            return {chain[-1]: Choice("hvd.number", f"resolve_cluster().{below}")}
        self._keep(imported, findings)
        findings.mark(f"`hvd.{below}` has no counterpart", "#training-over-processes")
        return {}

    def _logger(self, chain: list[cst.BaseExpression], findings: Findings) -> dict[cst.CSTNode, Choice]:
        for part in chain:
            imported = self._resolved(part)
            below = imported.path[len(_LOGGER) + 1 :]
            if below == "auto_set_dir":
                return {part: Choice("logger.auto_set_dir")}
            if below in _OF_LOGGING and isinstance(part, cst.Attribute):
                local = self._standard_logger(part.value, imported, findings)
                return {part: Choice("", f"{local}.{'warning' if below == 'warn' else below}")}
        whole = self._resolved(chain[-1])
        name = whole.path.removeprefix("tensorpack.utils.")
        if name == "logger":
            return {chain[-1]: Choice("", self._standard_logger(chain[-1], whole, findings))}
        findings.mark(f"`{name}` has no counterpart", "#logging-and-directories")
        if isinstance(chain[-1], cst.Name):
            self._keep(whole, findings)
        return {chain[-1]: Choice(name)}

    def _standard_logger(self, node: cst.BaseExpression, imported: Imported, findings: Findings) -> str:
        """Notes that a logger of the standard library is made, and returns its name."""
        local = node.value if isinstance(node, cst.Name) else "logger"
        self._need(imported, ("logging", "", ""), findings)
        for statement in imported.statements:
            findings.imports[statement].lines.add(f"{local} = logging.getLogger(__name__)")
        return local

    def _need(self, imported: Imported, name: tuple[str, str, str], findings: Findings) -> None:
        for statement in imported.statements:
            findings.imports[statement].names.add(name)

    def _keep(self, imported: Imported, findings: Findings) -> None:
        """Notes that a name has to stay imported from where it was."""
        for statement in imported.statements:
            findings.imports[statement].kept.add(imported.bound or imported.path)

    def _is_module(self, path: str) -> bool:
        below = path.removeprefix("tensorpack.")
        modules = {entry.module for entry in self._table.entries.values()}
        return any(is_of(module, below) for module in modules) or path.startswith("tensorpack.compat")

    def _resolved(self, node: cst.BaseExpression) -> Imported:
        imported = self._names.resolve(node)
        assert imported is not None
        return imported


def _bare(node: cst.CSTNode) -> str:
    return str(cst.Module([]).code_for_node(node))


def chain_of(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yields `a`, `a.b`, `a.b.c` of the expression `a.b.c`."""
    if isinstance(node, cst.Attribute):
        yield from chain_of(node.value)
    yield node
