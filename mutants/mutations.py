"""Makes the mutants of a module: one for each small change, by the operators of cosmic-ray."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

__all__ = ["Mutant", "mutants_of"]

# These ask which names to replace.
_WITH_ARGUMENTS = ("core/VariableReplacer", "core/VariableInserter")
# They are said for readers and type checkers alone.
_FOR_READERS = {"final", "override"}


class Mutant(NamedTuple):
    """One changed module.

    Attributes:
        source: its code.
        number: of the line that is changed, from 1.
        line: that line, without the white space around it.
        original: the same line before.
    """

    source: str
    number: int
    line: str
    original: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yields the mutants of a module's code, each once.

    Left out are those that differ in annotations, docstrings or `@final` only, and those that are no Python.
    """
    seen = {_meaning(source)}
    for name in operator_names():
        if name in _WITH_ARGUMENTS:
            continue
        for changed in _occurrences(source, name):
            meaning = _meaning(changed)
            if meaning is not None and meaning not in seen:
                seen.add(meaning)
                yield _mutant(source, changed)


def _occurrences(source: str, name: str) -> Iterator[str]:
    operator, occurrence = get_operator(name)(), 0
    while (changed := mutate_code(source, operator, occurrence)) is not None:
        yield changed
        occurrence += 1


def _mutant(source: str, changed: str) -> Mutant:
    before, after = source.splitlines(), changed.splitlines()
    gone = [line for line in before if line not in after] if len(after) < len(before) else []
    pairs = enumerate(zip(before, after), 1)
    number, (original, line) = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    if gone:  # a decorator
        number, original, line = before.index(gone[0]) + 1, gone[0], ""
    return Mutant(changed, number, line.strip(), original.strip())


def _meaning(source: str) -> str | None:
    """What of the code is run; `None` if it is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        _forget_what_is_not_run(node)
    return ast.dump(tree)


def _forget_what_is_not_run(node: ast.AST) -> None:
    if isinstance(node, ast.arg):
        node.annotation = None
    elif isinstance(node, ast.AnnAssign):
        node.annotation = ast.Constant(value=None)
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        node.decorator_list = [each for each in node.decorator_list if ast.unparse(each) not in _FOR_READERS]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        node.value.value = ""
