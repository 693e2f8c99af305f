"""The files of a program, and the names that they import from one another."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from towerpack_dataflow.storage import create_file

from .._errors import MigrationError
from ._migrate_script import Migration, Place, migrate_source

__all__ = ["migrate_files", "python_files", "write_migration"]


def python_files(path: Path) -> Iterator[Path]:
    """Yields a file, or the Python files in a folder and its subfolders, without hidden ones.

    Raises:
        FileNotFoundError: the file or folder does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected an existing file or folder")
    if not path.is_dir():
        yield path
        return
    for each in sorted(path.rglob("*.py")):
        if each.is_file() and not any(part.startswith(".") for part in each.relative_to(path).parts):
            yield each


def migrate_files(sources: Mapping[Path, bytes]) -> dict[Path, Migration | MigrationError]:
    """Rewrites the files of a program.

    Args:
        sources: the content of each file.

    Returns:
        The migration of each file; for a file that is not Python 3, the error.
    """
    outlines = {path: outline for path, source in sources.items() if (outline := _outline(path, source))}
    places = {path: _place(path, outlines) for path in sources}
    found = _migrated(sources, places)
    if any(isinstance(each, Migration) and each.has_old_methods for each in found.values()):
        known = {path: attrs.evolve(place, has_old_methods=True) for path, place in places.items()}
        return _migrated(sources, known)
    return found


def write_migration(path: Path, migration: Migration) -> None:
    """Replaces a file atomically; keeps links and permissions.

    Raises:
        OSError: the file cannot be written.
    """
    if migration.after != migration.before:
        with create_file(str(path)) as file:
            file.write(migration.after)


def _migrated(
    sources: Mapping[Path, bytes], places: Mapping[Path, Place]
) -> dict[Path, Migration | MigrationError]:
    found: dict[Path, Migration | MigrationError] = {}
    for path, source in sources.items():
        try:
            found[path] = migrate_source(source, str(path), places[path])
        except MigrationError as error:
            found[path] = error
    return found


@attrs.frozen
class _Outline:
    """The relations of one file to others.

    Args:
        module: the last part of its module name.
        identifiers: all names and attributes in it.
        imports: the names that it imports from modules, by the last parts of the module names; a star is all.
        is_old: whether it imports Tensorpack.
    """

    module: str
    identifiers: frozenset[str]
    imports: Mapping[str, set[str]]
    is_old: bool


def _outline(path: Path, source: bytes) -> _Outline | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the migration of the file raises the error
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    identifiers = attributes | {node.id for node in nodes if isinstance(node, ast.Name)}
    imports: dict[str, set[str]] = defaultdict(set)
    modules = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
            for alias in node.names:
                imports[alias.name.rpartition(".")[2]] |= attributes
        elif isinstance(node, ast.ImportFrom):
            modules |= {node.module or ""} if not node.level else set()
            names = {alias.name for alias in node.names}
            imports[(node.module or "").rpartition(".")[2]] |= names
            for name in names:  # a name may be a module
                imports[name] |= attributes
    last = path.parent.name if path.stem == "__init__" else path.stem
    is_old = any(name.partition(".")[0] == "tensorpack" for name in modules)
    return _Outline(last, frozenset(identifiers), imports, is_old)


def _place(path: Path, outlines: Mapping[Path, _Outline]) -> Place:
    if path not in outlines:
        return Place()
    module = outlines[path].module
    others = [each for other, each in outlines.items() if other != path]
    is_imported = any(module in each.imports for each in others)
    is_part = is_imported and any(each.is_old for each in outlines.values())
    return Place(frozenset(_taken_from(module, others, {module})), is_imported, is_part)


def _taken_from(module: str, others: Sequence[_Outline], seen: set[str]) -> set[str]:
    """Returns the names that other files import from a module."""
    taken: set[str] = set()
    for other in others:
        names = other.imports.get(module, set())
        taken |= names
        if "*" in names and other.module not in seen:
            taken |= other.identifiers | _taken_from(other.module, others, {*seen, other.module})
    return taken
