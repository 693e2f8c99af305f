"""Checks that the five wheels are written in one dialect, as CONTRIBUTING describes it.

`python checks/dialect.py` prints one line for each finding and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

import glossary
import prose
from source_files import ROOT, Module, modules, report

_ABSTRACT = {"ABC", "Protocol", "Enum", "StrEnum", "IntEnum", "TypedDict", "NamedTuple", "ABCMeta", "Generic"}
# To subclass a flow is a promise: docs/decisions/24-an-adapter-for-iterable-flows.md.
_OPEN = {"DataFlow", "ProxyDataFlow", "DataFromList", "DataFromIterable", "DataFromArrays", "MapData"}
_OPEN |= {"_JoinedEpochs"}  # of RepeatedData and FixedSizeData
# By the class of each flow that a user writes; by trainers of users, as in docs/tutorials/06-own-trainer.md.
_SUBCLASSED_LATER = {"WrittenFlow", "SimpleTrainer"}
_ERRORS = ("Error", "Exception", "Warning", "StopTraining")
_RAISES_IF = re.compile(r"^\s+\w+(Error|Exception)?: [Ii]f ")
_GOT = re.compile(r"\bgot\b")
_FIRST_WORD = re.compile(r"^(This|These|It|Its|Return|Does it|Whose|Who)\b")


def main() -> None:
    """Runs all checks."""
    parsed = list(modules())
    bases = _base_names(parsed)
    public = glossary.api_classes()
    found = (_module(module, bases, public) for module in parsed)
    report(chain(chain.from_iterable(found), _english(parsed), _words()))


def _english(parsed: list[Module]) -> Iterator[str]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in ("docs", "examples", "benchmarks"):
        pages += sorted((ROOT / folder).rglob("*.md"))
    pages += sorted((ROOT / "packages").rglob("README.md"))
    yield from prose.excessive("docstrings", chain.from_iterable(map(prose.docstrings, parsed)))
    yield from prose.excessive("messages", chain.from_iterable(map(prose.messages, parsed)))
    yield from prose.excessive("paragraphs", chain.from_iterable(map(prose.paragraphs, pages)))


def _words() -> Iterator[str]:
    """No file and no public name has a word that the glossary has replaced."""
    names = chain(glossary.file_names(), glossary.api_names())
    yield from glossary.outdated(names, *glossary.replaced_words())


def _module(module: Module, bases: set[str], public: set[str]) -> Iterator[str]:
    yield from _exports(module)
    yield from _imports(module)
    yield from _logger(module)
    yield from _finals(module, bases)
    yield from _docstrings(module)
    yield from without_examples(module, public)
    yield from _messages(module)


def _exports(module: Module) -> Iterator[str]:
    """`__all__` stands in every module that defines or re-exports something."""
    names = {
        target.id
        for node in module.tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for assigned in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in (assigned.elts if isinstance(assigned, ast.Tuple) else [assigned])
        if isinstance(target, ast.Name)
    }
    has_content = any(not isinstance(node, ast.Expr) for node in module.tree.body)
    if has_content and "__all__" not in names and module.path.name != "__main__.py":
        yield f"{module.at()}: no __all__"


def _imports(module: Module) -> Iterator[str]:
    """Imports inside a wheel are relative."""
    own = f"towerpack_{module.wheel}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == own:
            yield f"{module.at(node)}: import from {node.module} relatively"


def _logger(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger" and node.args:
            if ast.unparse(node.args[0]) == f"'towerpack_{module.wheel}'":
                continue
            yield f'{module.at(node)}: the logger is _log = logging.getLogger("towerpack_{module.wheel}")'
    for node in module.tree.body:
        is_logger = isinstance(node, ast.Assign) and "getLogger" in ast.unparse(node.value)
        if is_logger and ast.unparse(node.targets[0]) != "_log":
            yield f"{module.at(node)}: the logger is called _log"


def _base_names(parsed: list[Module]) -> set[str]:
    return {
        _last(base)
        for module in parsed
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }


def _last(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# Programs of Tensorpack make subclasses of any of its classes.
_OPEN_WHEEL = "compat"


def _finals(module: Module, bases: set[str]) -> Iterator[str]:
    """A public class is abstract, a base of another class, an error, or final."""
    if module.wheel == _OPEN_WHEEL:
        return
    for node in module.tree.body:
        if (
            not isinstance(node, ast.ClassDef)
            or node.name.startswith("_")
            or node.name in bases | _SUBCLASSED_LATER
        ):
            continue
        parents = {_last(base) for base in node.bases} | {_last(k.value) for k in node.keywords}
        is_error = any(
            name.endswith(("Error", "Exception", "Warning", "StopTraining")) for name in (*parents, node.name)
        )
        is_open = parents & (_ABSTRACT | _OPEN) or any(
            "abstract" in ast.unparse(d) for d in _decorators(node)
        )
        if not (is_error or is_open or "final" in {_last(d) for d in node.decorator_list}):
            yield f"{module.at(node)}: class {node.name} is neither abstract, nor subclassed here, nor @final"


def _decorators(node: ast.ClassDef) -> Iterator[ast.expr]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef):
            yield from child.decorator_list


def _docstrings(module: Module) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(module.tree):
        if not isinstance(node, documented) or (text := ast.get_docstring(node)) is None:
            continue
        first = text.splitlines()[0]
        if not re.search(r"[.:`?]$", text.split("\n\n")[0]):
            yield f"{module.at(node)}: the first sentence of a docstring ends with a period: {first!r}"
        if _FIRST_WORD.match(first):
            yield f'{module.at(node)}: a first line says verb and object ("Returns …"): {first!r}'
        if "``" in text.replace("```", ""):
            yield f"{module.at(node)}: code stands in single backticks"
        if any(_RAISES_IF.match(line) for line in text.splitlines()):
            yield f'{module.at(node)}: Raises says the condition as a clause, without "if"'


def without_examples(module: Module, public: set[str]) -> Iterator[str]:
    """The docstring of a public class has an example, which its page of the site shows; errors need none.

    Args:
        module: the file.
        public: the public classes, as `towerpack_<wheel>.Class`.
    """
    names = {name.rpartition(".")[2] for name in public if name.startswith(f"towerpack_{module.wheel}.")}
    for node in module.tree.body:
        if not isinstance(node, ast.ClassDef) or node.name not in names:
            continue
        if any(name.endswith(_ERRORS) for name in (node.name, *map(_last, node.bases))):
            continue
        if not re.search(">>>|```", ast.get_docstring(node) or ""):
            yield f"{module.at(node)}: the public class {node.name} has no example in its docstring"


def _messages(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) and node.exc is not None and _GOT.search(ast.unparse(node.exc)):
            yield f'{module.at(node)}: an error says "received", not "got"'


if __name__ == "__main__":
    main()
